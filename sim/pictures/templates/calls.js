"use strict";
// What a call led to: a row for each call, indented below the one that led to it, with a bar along the time.
window.squallCalls = (element, which, run) => {
  // run: {calls, workers, times, place(event), tick(from, to, share), chosen(), workerAt(event), choose(event, message)}
  const { parent, first, last, began, ended, names, name, errors, error, kinds, kind, worker, to, message, of_event } = run.calls;
  const part = (name) => element.querySelector("." + name);
  const box = part("branches"), rows = squallRows(box, part("tall")), also = part("also input");
  const count = parent.length, end = run.times.length - 1, phone = () => window.innerWidth <= 640;
  const lasts = (n) => last[n] >= 0 ? last[n] : end;
  // No line of a program asks for these by itself: they are seen when somebody asks for them.
  const byItself = (n) => kinds[kind[n]].by_itself;
  const make = (tag, className, text = "") => Object.assign(document.createElement(tag), { className, textContent: text });

  // What comes below something comes after it: its root and its depth are found forwards, what it led to backwards.
  const rootOf = new Int32Array(count), depth = new Int32Array(count), size = new Int32Array(count).fill(1);
  const hidden = new Int32Array(count), reach = Int32Array.from(last, (_, n) => lasts(n)), children = Array.from(parent, () => []);
  for (let n = 0; n < count; n++) {
    rootOf[n] = parent[n] < 0 ? n : rootOf[parent[n]];
    depth[n] = parent[n] < 0 ? 0 : depth[parent[n]] + 1;
    if (parent[n] >= 0) children[parent[n]].push(n);
  }
  for (let n = count - 1, above; n >= 0; n--) {
    if ((above = parent[n]) < 0) continue;
    size[above] += size[n];
    hidden[above] += byItself(n) ? size[n] : hidden[n];
    reach[above] = Math.max(reach[above], reach[n]);
  }
  const roots = Array.from(parent.keys()).filter((n) => parent[n] < 0 && !byItself(n));
  const below = (n) => children[n].filter((child) => also.checked || !byItself(child));
  const closed = new Set();
  let root = -1, shown = [];

  // The row of the event that is chosen, or of what led to it, if that is in sight.
  function chosen() {
    let n = run.chosen() >= 0 ? of_event[run.chosen()] : -1;
    while (n >= 0 && !shown.includes(n)) n = parent[n];
    return n;
  }

  function took(n) {
    const seconds = run.times[lasts(n)] - run.times[first[n]];
    const [unit, scale] = seconds >= 1 || !seconds ? ["s", 1] : seconds >= 1e-3 ? ["ms", 1e3] : ["µs", 1e6];
    return Number((seconds * scale).toPrecision(4)) + " " + unit;
  }

  function bar(className, from, until, color) {
    const low = run.place(first[root]), wide = Math.max(run.place(reach[root]) - low, 1e-12), found = make("i", className);
    found.style.background = color;
    found.style.left = (run.place(from) - low) / wide * 100 + "%";
    found.style.width = (run.place(until) - run.place(from)) / wide * 100 + "%";
    return found;
  }

  function row(n, selected) {
    const found = make("div", "branch"), lower = below(n), wrong = errors[error[n]];
    const [what, where, time, bars] = ["what", "where", "took", "bars"].map((name) => make("span", name));
    for (const [name, on] of [["wrong", wrong], ["by-itself", byItself(n)], ["chosen-row", n === selected]]) found.classList.toggle(name, Boolean(on));
    found.dataset.call = n;
    found.setAttribute("role", "treeitem");
    found.setAttribute("aria-level", depth[n] + 1);
    found.setAttribute("aria-selected", String(n === selected));
    if (lower.length) found.setAttribute("aria-expanded", String(!closed.has(n)));
    what.style.paddingLeft = Math.min(depth[n], 12) * (phone() ? 8 : 16) + "px";
    what.append(make("b", "fold", lower.length ? closed.has(n) ? "▸" : "▾" : ""), names[name[n]]);
    if (wrong) what.append(make("em", "", " ✕ " + wrong));
    where.textContent = run.workers[worker[n]] + (to[n] >= 0 ? " → " + run.workers[to[n]] : "");
    time.textContent = took(n);
    for (const cell of [what, where]) cell.title = cell.textContent;
    bars.append(bar(last[n] < 0 ? "open" : "", first[n], lasts(n), kinds[kind[n]].color));
    if (began[n] >= 0) bars.append(bar("handled", began[n], ended[n] >= 0 ? ended[n] : lasts(n), kinds[kind[n]].color));
    found.append(what, where, time, bars);
    return found;
  }

  function paint() {
    const selected = chosen();
    rows(shown, phone() ? 42 : 24, (n) => row(n, selected));
  }

  function list() {
    shown = [];
    // Without recursion: one call may lead to the next as often as it likes.
    for (const waiting = root < 0 ? [] : [root]; waiting.length;) {
      const n = waiting.pop();
      shown.push(n);
      if (!closed.has(n)) waiting.push(...below(n).reverse());
    }
    paint();
  }

  // The calls that workers make by themselves, by worker.
  function options() {
    const groups = new Map();
    for (const n of byItself(root) ? [root, ...roots] : roots) {
      const by = run.workers[worker[n]], led = size[n] > 1 ? ", led to " + (size[n] - 1).toLocaleString() : "";
      if (!groups.has(by)) groups.set(by, Object.assign(document.createElement("optgroup"), { label: by }));
      groups.get(by).append(new Option(names[name[n]] + " at " + run.tick(first[n], first[n], 0) + led, n, false, n === root));
    }
    which.replaceChildren(...groups.values());
  }

  function show(n) {
    if (n !== root) box.scrollTop = 0;
    root = n;
    part("none").hidden = n >= 0;
    part("some").hidden = which.hidden = n < 0;
    if (n < 0) return;
    options();
    part("also").hidden = !hidden[n];
    part("also span").textContent = hidden[n].toLocaleString();
    part("axis").replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((share) => make("span", "", run.tick(first[n], reach[n], share))));
    part("axis").childNodes.forEach((tick, at) => { tick.style.left = at * 25 + "%"; });
    list();
  }

  // Which one to begin with: that of an event, or the last that its worker has made by then, or the largest.
  function opening(event) {
    if (event >= 0 && of_event[event] >= 0) return rootOf[of_event[event]];
    const before = roots.filter((n) => first[n] <= event && worker[n] === run.workerAt(event));
    return before.pop() ?? roots.reduce((best, n) => best < 0 || size[n] > size[best] ? n : best, -1);
  }

  // Bring the row of the event that is chosen into sight.
  function select() {
    const n = run.chosen() >= 0 ? of_event[run.chosen()] : -1;
    if (n >= 0) {
      for (let above = parent[n]; above >= 0; above = parent[above]) closed.delete(above);
      if (rootOf[n] !== root) show(rootOf[n]); else list();
      const top = shown.indexOf(chosen()) * (box.querySelector(".branch")?.offsetHeight || 0);
      if (top < box.scrollTop || top > box.scrollTop + box.clientHeight * 0.9) box.scrollTop = top - box.clientHeight / 2;
    }
    paint();
  }

  const pick = (n) => run.choose(first[n], message[n]);
  function toggle(n) {
    if (!closed.delete(n)) closed.add(n);
    list();
  }
  box.addEventListener("click", (click) => {
    const n = Number(click.target.closest(".branch")?.dataset.call ?? -1);
    if (n >= 0) (click.target.className === "fold" && below(n).length ? toggle : pick)(n);
  });
  box.addEventListener("keydown", (key) => {
    const n = chosen(), next = { ArrowDown: 1, ArrowUp: -1 }[key.key], folds = { ArrowLeft: false, ArrowRight: true }[key.key];
    if (next && shown[shown.indexOf(n) + next] !== undefined) pick(shown[shown.indexOf(n) + next]);
    else if (n >= 0 && folds === closed.has(n) && below(n).length) toggle(n);
    else return;
    key.preventDefault();
  });
  box.addEventListener("scroll", () => requestAnimationFrame(paint));
  also.addEventListener("change", list);
  return { show, select, paint, opening, root: () => root };
};
