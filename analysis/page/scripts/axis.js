// SPDX-License-Identifier: BSD-2-Clause
// The time axis that all pictures share: where a time is, which bins a pixel has, and the axes at top and bottom.

const axis = { width: 800, left: 88, right: 14 };  // px of each picture
const AXIS_PX = 24;

const plotWidth = () => Math.max(1, axis.width - axis.left - axis.right);
const viewLength = () => view.end_ns - view.start_ns;
const xOfTime = (ns) => axis.left + ((ns - view.start_ns) / viewLength()) * plotWidth();
const timeOfX = (x) => view.start_ns + ((x - axis.left) / plotWidth()) * viewLength();

// Columns of whole bins, each at least `least_px` wide, that cover the view: indices of edges, one more than columns.
// Bins are joined at multiples of their number, so that a picture does not flicker while it is panned.
function binColumns(edges, least_px) {
  const bins = edges.length - 1;
  if (bins < 1 || edges[0] >= view.end_ns || edges[bins] <= view.start_ns) return new Int32Array(0);
  const first = Math.max(0, firstAtLeast(edges, view.start_ns + 1) - 1), last = Math.min(bins, firstAtLeast(edges, view.end_ns));
  const joined = Math.max(1, Math.ceil(((last - first) * least_px) / plotWidth()));
  const begin = Math.floor(first / joined), end = Math.ceil(last / joined);
  return Int32Array.from({ length: end - begin + 1 }, (_, i) => Math.min((begin + i) * joined, bins));
}

// The column of ascending edges that has a value; -1: none.
function columnAt(edges, value) {
  const above = firstAtLeast(edges, value);
  const i = above < edges.length && edges[above] === value ? above : above - 1;
  return i >= 0 && i < edges.length - 1 ? i : -1;
}

function timeTicks() {
  const step = niceStep(viewLength(), Math.max(2, Math.floor(plotWidth() / 90)));
  const ticks = [];
  for (let i = Math.ceil(view.start_ns / step); i * step <= view.end_ns; i++) ticks.push(i * step);
  return { step, ticks };
}

// A number of seconds with the decimals of the ticks.
const tickText = (ns, step) => {
  const places = Math.max(0, Math.min(9, Math.ceil(9 - Math.log10(step) - 1e-9)));
  const text = (ns / 1e9).toFixed(places);
  return Number(text) === 0 ? text.replace("-", "") : text;
};

function axisPlot(isTop) {
  return {
    key: isTop ? "axis-top" : "axis-bottom",
    title: "",
    label: "time axis",
    height: () => AXIS_PX,
    load: () => Promise.resolve({}),
    draw: (pen, box) => drawAxis(pen, box, isTop),
    read: () => null,
  };
}

function drawAxis(pen, box, isTop) {
  const { step, ticks } = timeTicks(), y = isTop ? box.height - 0.5 : 0.5;
  penLine(pen, axis.left, y, axis.left + plotWidth(), y, paper().edge);
  penText(pen, "seconds", axis.left - 8, box.height / 2, { align: "right" });
  for (const tick of ticks) {
    const x = sharp(xOfTime(tick) - 0.5);
    penLine(pen, x, y, x, isTop ? y - 5 : y + 5, paper().edge);
    const text = tickText(tick, step), half = pen.measureText(text).width / 2;
    const place = Math.min(Math.max(x, axis.left - 20 + half), axis.width - half - 1);
    penText(pen, text, place, isTop ? y - 13 : y + 14, { align: "center", color: paper().ink });
  }
}

// Faint lines of the ticks through a picture.
function drawTimeGrid(pen, top, height) {
  for (const tick of timeTicks().ticks) {
    const x = sharp(xOfTime(tick) - 0.5);
    penLine(pen, x, top, x, top + height, paper().line);
  }
}
