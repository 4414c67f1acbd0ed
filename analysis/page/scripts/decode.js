// SPDX-License-Identifier: BSD-2-Clause
// Read the columns that analysis/page/packed.py packed: LEB128 numbers in the bytes of inflate.js.

const inflated = new Map();  // "run-part": Promise of its bytes
const columns = new WeakMap();  // a column's place: Promise of its numbers

// The scripts start before the browser has read the page to its end, where the single requests are.
const pageRead = new Promise((resolve) => {
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", resolve);
  else resolve();
});

function partBytes(run, part) {
  const name = `part-${run.index}-${part}`;
  if (!inflated.has(name)) inflated.set(name, readPart(name));
  return inflated.get(name);
}

async function readPart(name) {
  if (!document.getElementById(name)?.nextSibling) await pageRead;  // not there, or not all of it
  const element = document.getElementById(name), text = element.textContent;
  element.remove();  // its text is not needed again
  return inflate(text);
}

// The numbers of a column, exact: Python refuses what is beyond 2^53. Of texts an array of strings.
function decoded(bytes, place) {
  if (place.coding === "text") return new TextDecoder().decode(bytes.subarray(place.at, place.at + place.bytes)).split("\n", place.n);
  const values = new Float64Array(place.n);
  const signed = place.coding.endsWith("s"), differences = place.coding.startsWith("d");
  let at = place.at, before = 0;
  for (let i = 0; i < place.n; i++) {
    let byte = bytes[at++], value = byte & 127, factor = 128;
    while (byte & 128) {
      byte = bytes[at++];
      value += (byte & 127) * factor;  // not shifted: numbers exceed 32 bits
      factor *= 128;
    }
    if (signed) value = value % 2 ? -(value + 1) / 2 : value / 2;
    if (differences) value += before;
    values[i] = before = value;
  }
  return values;
}

// Promise of a column's numbers, read once.
function column(run, place) {
  if (!columns.has(place)) columns.set(place, partBytes(run, place.part).then((bytes) => decoded(bytes, place)));
  return columns.get(place);
}
