"use strict";
// The colours of figures on a dark page: those that stand for paper and ink have others there.
window.squallColors = (() => {
  const others = {{ dark | tojson }};
  const dark = window.matchMedia("screen and (prefers-color-scheme: dark)");
  return {
    // The JSON of a figure, as this page shows it.
    of: (text) => dark.matches ? text.replace(/#[0-9a-f]{6}\b|rgba\(0,0,0,/gi, (color) => others[color.toLowerCase()] || color) : text,
    // One of the page's own colours.
    named: (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(),
    // Calls that when they change.
    changed: (act) => dark.addEventListener("change", act),
  };
})();
