"use strict";
// What is packed in a page: texts, columns of numbers and tables of them.
window.squallPacked = (() => {
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  async function unpack(id) {
    const element = document.getElementById(id);
    if (typeof DecompressionStream === "undefined") throw new Error("this browser is older than 2023");
    const stream = new Blob([bytes(element.textContent.trim())]).stream();
    const plain = stream.pipeThrough(new DecompressionStream("gzip"));
    return new Response(plain).text();
  }
  const KINDS = { f8: Float64Array, f4: Float32Array, i4: Int32Array, u4: Uint32Array, i2: Int16Array, u2: Uint16Array, i1: Int8Array, u1: Uint8Array };
  function array(value) {
    if (value && value.bdata !== undefined) return new KINDS[value.dtype](bytes(value.bdata).buffer);
    return value || [];
  }
  function table(value) {
    const flat = array(value);
    if (!value || value.shape === undefined) return flat;
    const width = Number(String(value.shape).split(",")[1]);
    const rows = [];
    for (let i = 0; i < flat.length; i += width) rows.push(Array.from(flat.subarray(i, i + width)));
    return rows;
  }
  return { unpack, array, table };
})();
