"use strict";
// The whole run as a strip above a picture: how many messages are sent where, what is cited, and the
// part that the picture shows, which can be dragged, drawn anew, or moved with the arrow keys.
window.squallStrip = (element, run) => {
  // run: {length, sent, cited, place(event), event(place), shown() -> [event, event], show(a, b)}
  const canvas = document.createElement("canvas"), grip = 7;
  element.append(canvas);
  const inside = () => Math.max(1, element.clientWidth);
  const low = () => run.place(0), span = () => Math.max(run.place(run.length - 1) - low(), 1e-12);
  const pixel = (event) => (run.place(event) - low()) / span() * inside();
  const event = (x) => run.event(low() + Math.min(1, Math.max(0, x / inside())) * span());

  function paint() {
    const width = inside(), height = element.clientHeight, scale = window.devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const bins = new Array(Math.max(1, Math.floor(width / 3))).fill(0);
    for (const sent of run.sent) bins[Math.min(bins.length - 1, Math.floor(pixel(sent) / width * bins.length))] += 1;
    const most = Math.max(1, ...bins);
    pen.fillStyle = squallColors.named("bars");
    bins.forEach((count, i) => {
      // Square roots: a single message is seen beside a hundred.
      const tall = Math.sqrt(count / most) * (height - 4);
      if (count) pen.fillRect(i * width / bins.length, height - tall, Math.max(1, width / bins.length - 1), tall);
    });
    pen.fillStyle = squallColors.named("red");
    for (const cited of run.cited) pen.fillRect(pixel(cited) - 1, 0, 2, height);
    const [a, b] = run.shown().map(pixel);
    pen.fillStyle = squallColors.named("veil");
    pen.fillRect(0, 0, a, height);
    pen.fillRect(b, 0, width - b, height);
    pen.strokeStyle = squallColors.named("ink");
    pen.lineWidth = 1.5;
    pen.strokeRect(a + 0.75, 0.75, Math.max(3, b - a - 1.5), height - 1.5);
    const [first, last] = run.shown().map((n) => Math.round(n));
    element.setAttribute("aria-valuemax", run.length - 1);
    element.setAttribute("aria-valuenow", first);
    element.setAttribute("aria-valuetext", "events " + first + " to " + last + " of " + (run.length - 1));
  }

  const moved = (a, b, by) => {
    // By the same distance at both ends, and no further than the run goes.
    const width = inside(), step = Math.max(-a, Math.min(width - b, by));
    run.show(event(a + step), event(b + step));
  };
  let drag = null;
  element.addEventListener("pointerdown", (down) => {
    const x = down.clientX - element.getBoundingClientRect().left, [a, b] = run.shown().map(pixel);
    const end = Math.abs(x - a) < grip ? "a" : Math.abs(x - b) < grip ? "b" : x > a && x < b ? "all" : "new";
    drag = { x, a, b, end };
    element.setPointerCapture(down.pointerId);
  });
  element.addEventListener("pointermove", (move) => {
    if (!drag) return;
    const x = move.clientX - element.getBoundingClientRect().left;
    if (drag.end === "all") moved(drag.a, drag.b, x - drag.x);
    else {
      const other = drag.end === "a" ? drag.b : drag.end === "b" ? drag.a : drag.x;
      if (Math.abs(x - other) > 3) run.show(event(Math.min(x, other)), event(Math.max(x, other)));
    }
  });
  element.addEventListener("pointerup", (up) => {
    const x = up.clientX - element.getBoundingClientRect().left;
    // A click beside the part that is shown brings it there.
    if (drag && drag.end === "new" && Math.abs(x - drag.x) <= 3) moved(drag.a, drag.b, x - (drag.a + drag.b) / 2);
    drag = null;
  });
  element.addEventListener("pointercancel", () => { drag = null; });
  element.addEventListener("dblclick", () => run.show(0, run.length - 1));
  element.addEventListener("keydown", (key) => {
    const [a, b] = run.shown().map(pixel), part = { ArrowLeft: -0.25, ArrowRight: 0.25, PageUp: -1, PageDown: 1 }[key.key];
    if (part !== undefined) moved(a, b, part * (b - a));
    else if (key.key === "Home") moved(a, b, -inside());
    else if (key.key === "End") moved(a, b, inside());
    else return;
    key.preventDefault();
  });
  new ResizeObserver(paint).observe(element);
  return paint;
};
