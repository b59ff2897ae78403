"use strict";
// The names beside arrows: each where nothing else is written, and within the picture; left out where there is no room.
window.squallLabels = (figure) => {
  const room = figure.querySelector(".nsewdrag")?.getBoundingClientRect(), taken = [], labels = [];
  if (!room) return;
  for (const trace of figure.querySelectorAll(".scatterlayer .trace")) {
    const meta = trace.__data__?.[0]?.trace?.meta || {};
    const texts = trace.querySelectorAll(".textpoint text");
    if (meta.between !== undefined || meta.labels) labels.push(...texts);
    else if (texts.length) taken.push(...[...texts, ...trace.querySelectorAll(".point")].map((each) => each.getBoundingClientRect()));
  }
  for (const text of figure.querySelectorAll(".annotation-text")) if (text.textContent) taken.push(text.getBoundingClientRect());
  // On a phone there is room for the function alone.
  const place = / \([^()]*:\d+\)$/;
  if (window.innerWidth < 600) for (const text of labels) if (place.test(text.textContent)) text.textContent = text.textContent.replace(place, "");
  // All are measured before any is moved, so that the browser lays them out once.
  for (const text of labels) text.style.translate = "none";
  const boxes = labels.map((text) => text.getBoundingClientRect());
  labels.forEach((text, n) => {
    const box = boxes[n], inside = box.left >= room.left - box.width / 2 && box.right <= room.right + box.width / 2;
    const across = Math.max(room.left + 2 - box.left, Math.min(0, room.right - 2 - box.right));
    const free = inside && [0, -13, 13].map((down) => new DOMRect(box.x + across, box.y + down, box.width, box.height)).find((at) =>
      at.top >= room.top && at.bottom <= room.bottom && taken.every((other) => at.right < other.left || at.left > other.right || at.bottom < other.top + 2 || at.top > other.bottom - 2));
    text.classList.add("label");
    text.style.visibility = free ? "visible" : "hidden";
    if (!free) return;
    text.style.translate = free.x - box.x + "px " + (free.y - box.y) + "px";
    taken.push(free);
  });
};
