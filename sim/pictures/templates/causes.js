"use strict";
// What a message depends on, and what depends on it: over the causes of each event.
window.squallCauses = (page, message) => {
  const { before, elsewhere } = page, flows = page.core.flows;
  const index = page.flowAt.get(message);
  const past = new Uint8Array(page.times.length), future = new Uint8Array(page.times.length);
  const stack = [flows.sent[index]];
  while (stack.length) {
    const event = stack.pop();
    for (const cause of [before[event], elsewhere[event]])
      if (cause >= 0 && !past[cause]) { past[cause] = 1; stack.push(cause); }
  }
  const start = flows.arrived[index];
  if (start >= 0) {
    future[start] = 1;
    for (let event = start + 1; event < future.length; event++) {
      const a = before[event], b = elsewhere[event];
      if ((a >= 0 && future[a]) || (b >= 0 && future[b])) future[event] = 1;
    }
  }
  const found = { past: [], future: [], index };
  for (let i = 0; i < flows.number.length; i++) {
    if (i === index) continue;
    if (flows.arrived[i] >= 0 && past[flows.arrived[i]]) found.past.push(i);
    else if (future[flows.sent[i]]) found.future.push(i);
  }
  return found;
};
