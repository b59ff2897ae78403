"use strict";
// The table of the events of a run, of which one can be searched, and what is known of each event.
window.squallEvents = (page) => {
  const byId = (id) => document.getElementById(id), { unpack, array } = squallPacked;
  const HEIGHT = 22;
  let detail = null, listed = null, lines = null;
  function detailed() {
    detail = detail || unpack("events").then((text) => {
      const found = JSON.parse(text);
      page.text = found.text;
      page.types = found.types;
      page.names = found.names;
      page.tasks = found.tasks;
      for (const key of ["worker", "task", "type", "before", "elsewhere"]) page[key] = array(found[key]);
      page.messageAt = new Map();
      const flows = page.core.flows;
      page.flowAt = new Map();
      for (let i = 0; i < flows.number.length; i++) {
        page.flowAt.set(flows.number[i], i);
        page.messageAt.set(flows.sent[i], flows.number[i]);
        if (flows.end[i] >= 0) page.messageAt.set(flows.end[i], flows.number[i]);
      }
      listed = Array.from(page.text.keys());
      rows();
      count();
    });
    return detail;
  }

  const task = (n) => page.tasks[page.task[n]] ?? "";
  function line(n) {
    return "#" + n + " " + page.times[n].toFixed(6) + " " + (page.core.workers[page.worker[n]] ?? "-") + " task" + page.task[n] + " " + task(n) + " " + page.types[page.type[n]] + " " + page.names[page.type[n]] + " " + page.text[n];
  }

  async function search(text) {
    await detailed();
    lines = lines || page.text.map((_, n) => line(n).toLowerCase());
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    listed = [];
    for (let n = 0; n < lines.length; n++) if (words.every((word) => lines[n].includes(word))) listed.push(n);
    byId("rows").scrollTop = 0;
    rows();
    count();
  }

  function count() {
    const all = page.text.length;
    byId("found").textContent = listed.length === all ? all.toLocaleString() + " events" : listed.length.toLocaleString() + " of " + all.toLocaleString() + " events";
  }

  const inSight = squallRows(byId("rows"), byId("tall"));
  function rows() {
    if (listed) inSight(listed, HEIGHT, (n) => {
      const row = document.createElement("div");
      row.className = "row" + (page.cited.has(n) ? " cited" : "") + (n === page.chosen ? " chosen-row" : "");
      row.dataset.event = n;
      for (const text of ["#" + n, page.times[n].toFixed(6), page.core.workers[page.worker[n]] ?? "-", task(n), page.names[page.type[n]], page.text[n]]) {
        const cell = document.createElement("span");
        cell.textContent = text;
        cell.title = text;
        row.append(cell);
      }
      if (page.task[n]) row.children[3].title = "task " + page.task[n] + ": " + task(n);
      return row;
    });
  }

  function scrollTo(event) {
    let at = listed.indexOf(event);
    if (at < 0) { byId("search").value = ""; listed = Array.from(page.text.keys()); count(); at = event; }
    const view = byId("rows");
    view.scrollTop = Math.max(0, at * HEIGHT - view.clientHeight / 2 + HEIGHT);
    rows();
  }
  return { detailed, rows, search, scrollTo };
};
