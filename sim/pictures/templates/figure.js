"use strict";
// One figure, packed in the page.
(() => {
  const byId = (id) => document.getElementById(id);
  const figure = byId("figure");
  const page = { ready: false };
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

  // A figure without a title of its own: the page says what there is to say of it.
  function noted(layout) {
    byId("notes").textContent = layout.meta.notes.join(" · ");
    byId("notes").hidden = !layout.meta.notes.length;
    layout.margin = { ...layout.margin, t: 30 };
    delete layout.title;
  }

  // On a phone long names have several lines, or end earlier, and the legend and the title have room of their own.
  function narrow(data, layout) {
    const lines = (text) => text.replace(/(.{24,40}) /g, "$1<br>");
    let legend = 0;
    for (const trace of data) {
      if (!trace.name || trace.showlegend === false) continue;
      trace.name = lines(trace.name);
      legend += 17 * trace.name.split("<br>").length;
    }
    if (layout.height) layout.height += legend;
    if (layout.title) {
      layout.title.text = layout.title.text.replace(/(<[^>]*>)|([^<]{24,40}) /g, (_, tag, words) => tag || words + "<br>");
      layout.margin = { ...layout.margin, t: layout.margin.t + legend };
    }
    for (const [name, axis] of Object.entries(layout)) {
      if (!name.startsWith("yaxis") || !axis.categoryarray) continue;
      axis.tickmode = "array";
      axis.tickvals = axis.categoryarray.map((_, at) => at);
      axis.ticktext = axis.categoryarray.map((text) => text.length > 22 ? text.slice(0, 21) + "…" : text);
    }
    for (const each of layout.annotations || []) each.text = each.text.replace(/^<b>(.{38}).{3,}<\/b>$/, "<b>$1…</b>");
  }

  (async () => {
    const text = await squallPacked.unpack("packed");
    const draw = async () => {
      const { data, layout } = JSON.parse(squallColors.of(text));
      if (layout.meta && layout.meta.title === "") noted(layout);
      if (window.innerWidth < 600) narrow(data, layout);
      if (layout.height) figure.style.height = layout.height + "px";
      // The page scrolls: its wheel does not zoom the picture.
      await Plotly.newPlot(figure, data, layout, { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] });
      figure.on("plotly_afterplot", () => squallLabels(figure));
      squallLabels(figure);
      figure.dataset.state = "drawn";
    };
    squallColors.changed(() => draw().catch(show));
    await draw();
    page.ready = true;
  })().catch(show);
})();
