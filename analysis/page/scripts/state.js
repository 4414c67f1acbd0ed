// SPDX-License-Identifier: BSD-2-Clause
// What all drawings and tables share: the runs, the time that is in view, the window that is brushed, and sums of cubes.
// Times are ns since each run's zero; a window is [start_ns, end_ns), its edges whole microseconds.

const page = JSON.parse(document.getElementById("page-data").textContent);
const runs = page.runs;
runs.forEach((run, index) => { run.index = index; });

const SHORTEST_NS = 1000;  // of a view and of a window
const whole = {
  start_ns: Math.floor(Math.min(...runs.map((run) => run.start_ns)) / 1000) * 1000,
  end_ns: Math.ceil(Math.max(...runs.map((run) => run.end_ns)) / 1000) * 1000,
};
if (whole.end_ns <= whole.start_ns) whole.end_ns = whole.start_ns + SHORTEST_NS;
const view = { ...whole };
let brush = null;  // { start_ns, end_ns }, or null: nothing is brushed
const listeners = { view: [], brush: [], theme: [], ready: [] };

const on = (event, listener) => { listeners[event].push(listener); };
const tell = (event, what) => { for (const listener of listeners[event]) listener(what); };
const toMicrosecond = (ns) => Math.round(ns / 1000) * 1000;

// A window within the whole time, at least SHORTEST_NS long.
function clamped(start_ns, end_ns) {
  let [low, high] = [Math.min(start_ns, end_ns), Math.max(start_ns, end_ns)].map(toMicrosecond);
  const length = Math.min(Math.max(high - low, SHORTEST_NS), whole.end_ns - whole.start_ns);
  low = Math.max(whole.start_ns, Math.min(low, whole.end_ns - length));
  return { start_ns: low, end_ns: low + length };
}

function setView(start_ns, end_ns) {
  const wanted = clamped(start_ns, end_ns);
  if (wanted.start_ns === view.start_ns && wanted.end_ns === view.end_ns) return;
  Object.assign(view, wanted);
  tell("view", view);
}

function setBrush(start_ns, end_ns) {
  if (start_ns === null) brush = null;
  else {
    const low = Math.max(whole.start_ns, Math.min(start_ns, end_ns)), high = Math.min(whole.end_ns, Math.max(start_ns, end_ns));
    brush = clamped(low, high);
  }
  clearTimeout(addressTimer);
  addressTimer = setTimeout(writeAddress, ADDRESS_MS);
  tell("brush", brush);
}

// The window that tables and flame graphs show: the brush, or all the time if nothing is brushed.
const windowNow = () => brush ?? whole;

// The window in the page's address, in seconds: #t=1.2-3.4. Times before the zero are negative: #t=-0.5-2.
// It is written when the window has been still: browsers refuse an address that changes with every move of a drag.
const ADDRESS_MS = 80;
let addressTimer = 0;

function writeAddress() {
  const edge = (ns) => String(Number((ns / 1e9).toFixed(6)));
  const address = brush === null ? location.pathname + location.search : `#t=${edge(brush.start_ns)}-${edge(brush.end_ns)}`;
  try {
    history.replaceState(null, "", address);
  } catch {
    // some browsers refuse it to pages of files: the address stays as it was
  }
}

function readAddress() {
  const found = /^#t=(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)$/.exec(location.hash);
  if (found === null) return;
  const [start_ns, end_ns] = [Number(found[1]) * 1e9, Number(found[2]) * 1e9];
  if (!(end_ns > start_ns)) return;
  setBrush(start_ns, end_ns);
  const margin = (brush.end_ns - brush.start_ns) / 2;
  setView(brush.start_ns - margin, brush.end_ns + margin);
}

// Another window in the address of an open page, by hand or by "back".
window.addEventListener("hashchange", readAddress);

// --- cubes -----------------------------------------------------------------------------------------------------

const decodedCubes = new WeakMap();

// Promise of a run's cube with its columns read; null: the run has none of this key.
function cubeOf(run, key) {
  const cube = run.cubes.find((one) => one.key === key);
  if (cube === undefined) return Promise.resolve(null);
  if (!decodedCubes.has(cube)) decodedCubes.set(cube, readCube(run, cube));
  return decodedCubes.get(cube);
}

async function readCube(run, cube) {
  const of = (place) => column(run, place);
  const [edges, bin, key, values, labels] = await Promise.all([
    of(cube.edges), of(cube.entries.bin), of(cube.entries.key), Promise.all(cube.entries.values.map(of)),
    Promise.all(cube.labels.map(async (label) => ({
      ...label,
      codes: await of(label.codes),
      nodes: label.nodes ? { parent: await of(label.nodes.parent), word: await of(label.nodes.word) } : null,
    }))),
  ]);
  const keys = labels.length ? labels[0].codes.length : 1;
  return { ...cube, run, edges, labels, keys, bin, keyOf: key, columns: values };
}

// The first index of an ascending column whose value is at least `value`.
function firstAtLeast(ascending, value) {
  let low = 0, high = ascending.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The bins [first, last) of a cube nearest to a window, at least one; null: the cube has no bins, or none near it.
function snapped(cube, start_ns, end_ns) {
  const edges = cube.edges, bins = edges.length - 1;
  if (bins < 1 || end_ns <= edges[0] || start_ns >= edges[bins]) return null;
  const nearest = (ns) => {
    const above = Math.min(firstAtLeast(edges, ns), bins);
    return above > 0 && ns - edges[above - 1] <= edges[above] - ns ? above - 1 : above;
  };
  let first = nearest(start_ns), last = nearest(end_ns);
  if (first >= last) {  // a window within one bin: the bin that has its middle
    const middle = (start_ns + end_ns) / 2;
    first = Math.max(0, Math.min(bins - 1, firstAtLeast(edges, middle + 1) - 1));
    last = first + 1;
  }
  return { first, last, start_ns: edges[first], end_ns: edges[last] };
}

// The sums of a cube over the bins nearest to a window: of each key, and of all keys together (Float64Arrays by value);
// null where snapped() is.
function cubeSum(cube, start_ns, end_ns) {
  const bins = snapped(cube, start_ns, end_ns);
  if (bins === null) return null;
  const from = firstAtLeast(cube.bin, bins.first), to = firstAtLeast(cube.bin, bins.last);
  const sums = cube.values.map((value, k) => {
    const sum = new Float64Array(cube.keys), column = cube.columns[k];
    if (value.how === "max") for (let i = from; i < to; i++) sum[cube.keyOf[i]] = Math.max(sum[cube.keyOf[i]], column[i]);
    else for (let i = from; i < to; i++) sum[cube.keyOf[i]] += column[i];
    return sum;
  });
  const all = cube.values.map((value, k) => sums[k].reduce(value.how === "max" ? (a, b) => Math.max(a, b) : (a, b) => a + b, 0));
  return { ...bins, sums, all };
}
