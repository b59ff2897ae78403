"use strict";
// A long list in a box that scrolls: only the rows in sight are in the page.
window.squallRows = (view, tall) => (list, height, make) => {
  // Browsers end at some millions of pixels: beyond so many rows' worth, the scroll bar is scaled.
  const full = list.length * height, high = Math.min(full, 600000 * height);
  tall.style.height = high + "px";
  const first = Math.max(0, Math.floor(view.scrollTop * (full / (high || 1)) / height) - 4);
  tall.replaceChildren(...list.slice(first, first + Math.ceil(view.clientHeight / height) + 9).map((each, i) => {
    const row = make(each, first + i);
    row.style.top = (first + i) * height + "px";
    return row;
  }));
};
