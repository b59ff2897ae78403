"use strict";
// One run: figures drawn at events, a table of the events, and one selected event that all share.
(() => {
  const byId = (id) => document.getElementById(id);
  const figure = byId("figure");
  const page = { ready: false, view: null, clock: null, chosen: -1, message: -1, drawn: 0, loaded_ms: 0 };
  window.squall = page;

  const show = (error) => {
    byId("problem").hidden = false;
    byId("problem").textContent = "This page could not be drawn: " + (error && error.message || error);
    figure.dataset.state = "failed";
  };
  window.addEventListener("error", (event) => show(event.error || event.message));
  window.addEventListener("unhandledrejection", (event) => show(event.reason));

  // A page of squall serve may not set style attributes, only the properties: plotly sets attributes.
  const setAttribute = Element.prototype.setAttribute;
  Element.prototype.setAttribute = function (name, value) {
    if (name === "style" && this.style) this.style.cssText = value;
    else setAttribute.call(this, name, value);
  };

  const { unpack, array, table } = squallPacked, { detailed, rows, search, scrollTo } = squallEvents(page);

  // -- where events are -------------------------------------------------------------------------

  const place = (event) => page.clock === "time" ? page.times[event] : event;
  // The other way: the last event that is there by then; between two events in their order.
  function eventAt(where) {
    const last = page.times.length - 1;
    if (page.clock !== "time") return Math.min(last, Math.max(0, where));
    let low = 0, high = last;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (page.times[middle] <= where) low = middle; else high = middle - 1;
    }
    return low;
  }
  // The part of the run that all pictures along it show, as events: they open on one step of a long run.
  function shownRange() {
    const last = page.times.length - 1, [a, b] = page.window;
    const from = place(Math.floor(a)), to = place(Math.ceil(b)), room = (to - from) * 0.01 || (page.clock === "time" ? 1e-6 : 1);
    return a <= 0 && b >= last ? null : [from - room, to + room];
  }
  function showPart(a, b) {
    page.window = [a, b];
    const range = shownRange();
    if (page.across && figure.dataset.state === "drawn")
      Plotly.relayout(figure, range ? { "xaxis.range": range, "xaxis.autorange": false } : { "xaxis.autorange": true });
    page.strip();
  }
  const ends = (a, b) => page.clock === "time" ? page.times[b] - page.times[a] : Math.max(b - a, 0.9);

  function clocked(source) {
    // The packed figure has everything at the numbers of events; this one has it where the clock says.
    const data = source.data.map((trace) => {
      const meta = trace.meta || {};
      if (meta.spans) {
        const spans = trace.customdata;
        return { ...trace, base: spans.map((s) => place(s[0])), x: spans.map((s) => ends(s[0], s[1])) };
      }
      if (meta.between !== undefined)
        return { ...trace, x: trace.customdata.map((c) => place(c[0]) + (place(c[2]) - place(c[0])) * meta.between) };
      if (meta.events) return { ...trace, x: Array.from(trace.x, (x) => x === null || Number.isNaN(x) ? null : place(x)) };
      return trace;
    });
    const layout = { ...source.layout };
    const across = (layout.meta || {}).clock !== "none";
    if (across) {
      layout.xaxis = { ...layout.xaxis, title: { ...layout.xaxis.title, text: page.clock === "time" ? "virtual time" : "events in their order" } };
      layout.xaxis.ticksuffix = page.clock === "time" ? "s" : "";
      const range = shownRange();
      if (range) { layout.xaxis.range = range; layout.xaxis.autorange = false; }
      layout.xaxis.exponentformat = page.clock === "time" ? "SI" : "none";
      layout.shapes = (layout.shapes || []).map((shape) => shape.xref === "paper" ? shape : { ...shape, x0: place(shape.x0), x1: place(shape.x1) });
    }
    return { data, layout, frames: source.frames, across };
  }

  // -- views --------------------------------------------------------------------------------------

  const sources = new Map();
  async function source(id) {
    if (!sources.has(id)) {
      const found = JSON.parse(squallColors.of(await unpack(id)));
      for (const trace of found.data) {
        if (trace.customdata) trace.customdata = table(trace.customdata);
        for (const key of ["x", "y", "base"]) if (trace[key]) trace[key] = array(trace[key]);
      }
      sources.set(id, found);
    }
    return sources.get(id);
  }

  // Whether there is a choice of clocks, and whether the picture is one of the strip's.
  function axes(clocks, across) {
    for (const button of document.querySelectorAll("[data-clock]")) {
      button.disabled = !clocks;
      button.setAttribute("aria-checked", String(clocks && button.dataset.clock === page.clock));
      button.setAttribute("role", "radio");
    }
    page.across = across;
    byId("strip").hidden = !across || page.times.length < 2;
    if (across) page.strip();
  }

  // The calls of the run, read when somebody looks at them.
  let tree = null;
  async function calls() {
    await detailed();
    if (tree) return tree;
    const found = JSON.parse(await unpack("calls"));
    for (const key of Object.keys(found)) if (found[key].bdata !== undefined) found[key] = array(found[key]);
    tree = squallCalls(byId("branches"), byId("which"), {
      calls: found, workers: page.core.workers, times: page.times, place, choose,
      tick: (from, to, share) => page.clock === "time" ? (page.times[from] + (page.times[to] - page.times[from]) * share).toFixed(6) + " s" : "#" + Math.round(from + (to - from) * share),
      chosen: () => page.chosen, workerAt: (event) => page.worker[event],
    });
    return tree;
  }

  async function drawCalls(turn) {
    const found = await calls(), picked = byId("which").selectedOptions.length > 0;
    if (turn !== drawing) return;
    axes(true, false);
    byId("notes").textContent = "What each call led to · pale: from its start to its end; full: as long as the worker that is called handles it";
    fit();
    if (picked) found.show(Number(byId("which").value));
    else found.show(found.root() >= 0 ? found.root() : found.opening(page.chosen >= 0 ? page.chosen : page.core.opened_at));
    if (!picked && page.chosen >= 0) found.select();
    drawn();
  }

  function drawn() {
    figure.dataset.state = "drawn";
    figure.dataset.view = page.view;
    page.drawn += 1;
  }

  let drawing = 0;
  async function draw() {
    const turn = ++drawing;
    figure.dataset.state = "loading";
    const view = page.core.views.find((v) => v.id === page.view);
    figure.hidden = page.view === "calls";
    byId("branches").hidden = !figure.hidden;
    if (figure.hidden) await drawCalls(turn);
    else await drawFigure(turn, view);
  }

  async function drawFigure(turn, view) {
    const which = byId("which"), part = view.parts.length > 1 ? Number(which.value) || 0 : 0;
    const found = await source(view.parts[part].id);
    if (turn !== drawing) return;
    const { data, layout, frames, across } = clocked(found);
    page.shapes = layout.shapes || [];
    axes(across, across);
    const notes = (layout.meta || {}).notes || [];
    byId("notes").textContent = notes.join(" · ");
    // The page says in words what a figure on its own says in its title.
    layout.margin = { ...layout.margin, t: Math.max(30, layout.margin.t - (layout.meta.clock === "none" ? 50 : notes.length ? 44 : 26)) };
    delete layout.title;
    // On a phone names leave room for what they name; what tells them apart may stand at either end.
    const short = (name) => window.innerWidth < 600 && name.length > 22 ? name.slice(0, 12) + "…" + name.slice(-9) : name;
    if ((layout.meta || {}).lanes) {
      layout.meta = { ...layout.meta, lanes: [layout.meta.lanes[0], layout.meta.lanes[1].map(short)] };
      layout.yaxis = { ...layout.yaxis, ticktext: Array.from(layout.yaxis.ticktext || [], short) };
    }
    fit();
    layout.autosize = true;
    layout.uirevision = page.view + page.clock;
    Plotly.purge(figure);
    await Plotly.newPlot(figure, { data, layout, frames: frames || [], config: { responsive: true, displaylogo: false, scrollZoom: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] } });
    if (turn !== drawing) return;
    figure.on("plotly_click", (event) => clicked(event.points[0]));
    figure.on("plotly_relayout", (change) => {
      if (!page.across || !Object.keys(change).some((key) => key.startsWith("xaxis"))) return;
      const [a, b] = figure._fullLayout.xaxis.range;
      page.window = change["xaxis.autorange"] ? [0, page.times.length - 1] : [eventAt(a), eventAt(b)];
      page.strip();
    });
    figure.on("plotly_relayout", (change) => { if (Object.keys(change).some((key) => key.startsWith("yaxis"))) label(); });
    figure.on("plotly_afterplot", () => squallLabels(figure));
    squallLabels(figure);
    label();
    page.base = data.length;
    drawn();
    if (page.view === "space_time" && page.message >= 0) await cone(page.message);
    mark();
  }

  // As high as leaves room for the events below, on a phone half of it.
  function fit() {
    const drawing = page.view === "calls" ? byId("branches") : figure;
    drawing.style.height = "0px";
    const below = byId("rows").getBoundingClientRect().bottom + window.scrollY + 14;
    const least = window.innerWidth < 600 ? window.innerHeight / 2 : 240;
    drawing.style.height = Math.max(least, window.innerHeight - below) + "px";
  }

  // As many names of lanes as fit: the others show up when one zooms in.
  function label() {
    const lanes = (figure.layout.meta || {}).lanes;
    if (!lanes) return;
    const [a, b] = figure._fullLayout.yaxis.range, room = figure._fullLayout._size.h;
    const inside = lanes[0].map((at, index) => index).filter((index) => lanes[0][index] >= Math.min(a, b) && lanes[0][index] <= Math.max(a, b));
    const step = Math.max(1, Math.ceil(inside.length * 13 / room));
    const kept = inside.filter((_, index) => index % step === 0);
    const vals = kept.map((index) => lanes[0][index]);
    if (JSON.stringify(vals) !== JSON.stringify(Array.from(figure.layout.yaxis.tickvals || [])))
      Plotly.relayout(figure, { "yaxis.tickvals": vals, "yaxis.ticktext": kept.map((index) => lanes[1][index]) });
  }

  async function open(id) {
    page.view = id;
    for (const tab of document.querySelectorAll(".tabs button")) tab.setAttribute("aria-selected", String(tab.dataset.view === id));
    const view = page.core.views.find((v) => v.id === id);
    const which = byId("which");
    which.hidden = view.parts.length < 2;
    which.replaceChildren(...view.parts.map((part, index) => new Option(part.name, String(index))));
    await draw();
  }

  function clicked(point) {
    const custom = point.customdata;
    const event = Array.isArray(custom) ? custom[0] : custom;
    const message = page.view === "space_time" && Array.isArray(custom) && custom.length > 1 ? custom[1] : -1;
    if (event === undefined || event === null || event < 0) return;
    choose(Number(event), Number(message));
  }

  // -- the selected event --------------------------------------------------------------------------

  async function choose(event, message = -1) {
    await detailed();
    page.chosen = event;
    page.message = message >= 0 ? message : page.messageAt.get(event) ?? -1;
    history.replaceState(null, "", "#event=" + event);
    byId("clear").hidden = false;
    const [a, b] = page.window;
    if (event < a || event > b) showPart(Math.max(0, event - (b - a) / 2), Math.min(page.times.length - 1, event + (b - a) / 2));
    const text = byId("chosen");
    text.innerHTML = "";
    const name = document.createElement("b");
    name.textContent = "#" + event + " " + page.names[page.type[event]];
    const about = page.text[event].split(", ")[0];
    text.append(name, about ? ": " + about : "", " at t=" + page.times[event].toFixed(6) + " s on " + (page.core.workers[page.worker[event]] ?? "-"));
    if (page.core.marks[event]) text.append(" · " + page.core.marks[event]);
    if (event === page.core.failure && page.core.wrong) text.append(" · " + page.core.wrong);
    if (page.view === "space_time" && page.message >= 0) await cone(page.message);
    else if (page.view === "space_time") await uncone();
    else if (page.view === "calls" && tree) tree.select();
    mark();
    scrollTo(event);
  }

  async function clear() {
    page.chosen = page.message = -1;
    history.replaceState(null, "", location.pathname + location.search);
    byId("clear").hidden = true;
    byId("chosen").textContent = "";
    if (page.view === "space_time") await uncone();
    if (tree) tree.paint();
    mark();
    rows();
  }

  function mark() {
    if (!page.across || figure.dataset.state !== "drawn") return;
    const shapes = page.shapes.slice();
    if (page.chosen >= 0) shapes.push({ type: "line", xref: "x", yref: "paper", x0: place(page.chosen), x1: place(page.chosen), y0: 0, y1: 1, line: { color: "#D55E00", width: 1.4, dash: "dot" } });
    Plotly.relayout(figure, { shapes });
  }

  async function uncone() {
    const extra = figure.data.length - page.base;
    if (extra > 0) {
      await Plotly.deleteTraces(figure, Array.from({ length: extra }, (_, i) => page.base + i));
      await Plotly.restyle(figure, { opacity: figure.data.map((trace) => trace.meta && trace.meta.was !== undefined ? trace.meta.was : 1) });
    }
    page.cone = null;
  }

  async function cone(message) {
    await detailed();
    await uncone();
    if (!page.flowAt.has(message)) return;
    const found = squallCauses(page, message), flows = page.core.flows, last = page.times.length - 1;
    const lines = (indices, color, name, width) => {
      const x = [], y = [];
      for (const i of indices) {
        x.push(place(flows.sent[i]), place(flows.end[i] >= 0 ? flows.end[i] : last), null);
        y.push(page.rowOf.get(flows.src[i]), page.rowOf.get(flows.dst[i]), null);
      }
      return { type: indices.length > 2000 ? "scattergl" : "scatter", mode: "lines", x, y, line: { color, width }, name: name + " (" + indices.length + ")", hoverinfo: "skip", showlegend: false };
    };
    for (const trace of figure.data) trace.meta = { ...(trace.meta || {}), was: trace.opacity ?? 1 };
    await Plotly.restyle(figure, { opacity: figure.data.map((trace) => trace.name === "what decided it" ? 1 : 0.13) });
    await Plotly.addTraces(figure, [
      lines(found.past, "#56B4E9", "its past", 2.6), lines(found.future, "#E69F00", "its future", 2.6), lines([found.index], squallColors.named("ink"), "the message", 3.4)]);
    page.cone = { message, past: found.past.length, future: found.future.length };
    const text = byId("chosen");
    if (!text.querySelector(".key")) {
      const key = (color) => { const s = document.createElement("span"); s.className = "key"; s.style.background = color; return s; };
      text.append(" · ", key("#56B4E9"), found.past.length.toLocaleString() + " messages it depends on", key("#E69F00"), found.future.length.toLocaleString() + " that depend on it");
    }
  }

  // -- begin --------------------------------------------------------------------------------------------

  async function fromHash() {
    const match = /^#event=(\d+)(&from)?$/.exec(location.hash);
    if (!match || Number(match[1]) >= page.times.length) return;
    await choose(Number(match[1]));
    // What comes from this event on: how two runs are compared.
    if (match[2] && page.across) await Plotly.relayout(figure, { "xaxis.range": [place(Math.max(0, page.chosen - 10)), place(Math.min(page.times.length - 1, page.chosen + 150))] });
  }

  async function begin() {
    if (typeof Plotly === "undefined") {
      const from = document.querySelector("script[src]");
      throw new Error("plotly.js did not load" + (from ? " from " + from.getAttribute("src") + (from.integrity ? ", which needs a network; squall timeline --plotly inline makes a page that needs none" : ": keep that file in the folder of this page, or make the page with squall timeline --plotly inline") : ""));
    }
    page.core = JSON.parse(await unpack("core"));
    page.times = array(page.core.times);
    for (const key of Object.keys(page.core.flows)) page.core.flows[key] = array(page.core.flows[key]);
    page.cited = new Set(page.core.cited);
    page.rowOf = new Map(page.core.order.map((worker, row) => [worker, row]));
    page.clock = location.hash.endsWith("&from") ? "order" : page.core.clock;
    page.window = page.core.window;
    page.strip = squallStrip(byId("strip"), {
      length: page.times.length, sent: page.core.flows.sent, cited: page.core.cited, place, event: eventAt,
      shown: () => page.window, show: showPart,
    });
    for (const tab of document.querySelectorAll(".tabs button")) tab.addEventListener("click", () => open(tab.dataset.view));
    for (const button of document.querySelectorAll("[data-clock]")) button.addEventListener("click", () => { page.clock = button.dataset.clock; draw(); });
    byId("which").addEventListener("change", draw);
    byId("clear").addEventListener("click", clear);
    byId("copy").addEventListener("click", async () => {
      const text = byId("replay").textContent;
      try { await navigator.clipboard.writeText(text); }
      catch { const range = document.createRange(); range.selectNodeContents(byId("replay")); getSelection().removeAllRanges(); getSelection().addRange(range); document.execCommand("copy"); }
      byId("copy").textContent = "copied";
      setTimeout(() => { byId("copy").textContent = "copy"; }, 1500);
    });
    let waiting = 0;
    byId("search").addEventListener("input", (event) => { clearTimeout(waiting); waiting = setTimeout(() => search(event.target.value), 120); });
    byId("rows").addEventListener("scroll", () => requestAnimationFrame(rows));
    byId("rows").addEventListener("click", (event) => { const row = event.target.closest(".row"); if (row) choose(Number(row.dataset.event)); });
    window.addEventListener("hashchange", fromHash);
    window.addEventListener("resize", () => { if (figure.dataset.state === "drawn") fit(); rows(); if (tree) tree.paint(); });
    squallColors.changed(() => { sources.clear(); draw(); });
    await open(page.core.opened);
    page.loaded_ms = performance.now();
    await detailed();
    page.ready = true;
    document.body.dataset.ready = "true";
    await fromHash();
    if (page.chosen < 0 && page.core.opened_at >= 0) await choose(page.core.opened_at);
  }
  begin().catch(show);
})();
