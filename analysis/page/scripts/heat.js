// SPDX-License-Identifier: BSD-2-Clause
// Latency over time: requests by time and latency, darker where they are more; lines of the median and the 99th
// percentile. The cube has latencies in buckets: a percentile is the middle of its bucket.

const HEAT_CELL_PX = 3;
const HEAT_LINES = [{ percent: 50, name: "median", width: 1.6 }, { percent: 99, name: "99th percentile", width: 1.1 }];
const HEAT_OPS = {
  read: { light: "#00745a", dark: "#3fd6ae", dash: [4, 2] },
  write: { light: "#a0195e", dark: "#ff8cc4", dash: [] },
};
const HEAT_OTHER = { light: "#5c5c5c", dark: "#b0b0b0", dash: [1, 2] };

function heatPlot(panel) {
  let ops = [];
  const joint = { low: Infinity, high: 0 };  // latencies of all runs
  return {
    key: panel.key,
    hasNote: true,
    height: () => panel.height_px,
    load: async (run, own) => {
      const data = await readHeat(run, own);
      ops = [...new Set([...ops, ...data.ops])];
      joint.low = Math.min(joint.low, data.low);
      joint.high = Math.max(joint.high, data.high);
      return data;
    },
    scale: (data, box, cell) => countHeatTiles(box, data, joint, cell),
    draw: (pen, box, data, range, cell) => drawHeat(pen, box, data, range, cell),
    read: (data, time, x, y, cell) => readHeatAt(data, time, y, cell),
    legend: () => ops.flatMap((op) => HEAT_LINES.map((line) => ({ ...(HEAT_OPS[op] ?? HEAT_OTHER), name: `${op}: ${line.name}` }))),
  };
}

// Of each key of the cube its operation and its bucket; the buckets' bounds, ascending.
async function readHeat(run, panel) {
  const cube = await cubeOf(run, panel.cube);
  if (cube === null) throw new Error("its figures are not in the page");
  const op = cube.labels.find((label) => label.name === "op"), bucket = cube.labels.find((label) => label.name === "bucket");
  const lowest = (code) => bucketBounds(bucket, code)[0], used = [...new Set(bucket.codes)].sort((a, b) => lowest(a) - lowest(b));
  const place = new Map(used.map((code, i) => [code, i])), bounds = used.map((code) => bucketBounds(bucket, code));
  const low = Math.max(bounds[0]?.[0] ?? 1, 1);
  return {
    cube,
    ops: op.words,
    slot: Int32Array.from(bucket.codes, (code, key) => op.codes[key] * bounds.length + place.get(code)),  // of a key
    buckets: bounds.length,
    middle: Float64Array.from(bounds, ([least, most]) => (least + most) / 2),
    low: low / 1.1,
    high: Math.max(bounds.at(-1)?.[1] ?? 0, low * 10) * 1.1,
  };
}

// Requests of each column of the view, by op and bucket.
function countHeat(data, columns_, n) {
  const slots = data.ops.length * data.buckets, counts = new Float64Array(n * slots);
  if (n === 0) return counts;
  const { bin, keyOf, columns: [requests] } = data.cube, slot = data.slot, to = firstAtLeast(bin, columns_[n]);
  for (let i = firstAtLeast(bin, columns_[0]), c = 0; i < to; i++) {
    while (bin[i] >= columns_[c + 1]) c++;
    counts[c * slots + slot[keyOf[i]]] += requests[i];
  }
  return counts;
}

const yOfLatency = (box, range, ns) =>
  box.top + box.height * (1 - Math.log(Math.max(ns, 1) / range.low) / Math.log(range.high / range.low));

function countHeatTiles(box, data, range, cell) {
  const columns_ = binColumns(data.cube.edges, HEAT_CELL_PX), n = Math.max(0, columns_.length - 1), { buckets, ops } = data;
  const counts = countHeat(data, columns_, n), rows = Math.max(1, Math.ceil(box.height / HEAT_CELL_PX));
  const rowOf = Int32Array.from(data.middle, (ns) => Math.max(0, Math.min(rows - 1, Math.floor((yOfLatency(box, range, ns) - box.top) / HEAT_CELL_PX))));
  const tiles = new Float64Array(n * rows);
  for (let c = 0, i = 0; c < n; c++)
    for (let k = 0; k < ops.length; k++) for (let b = 0; b < buckets; b++, i++) if (counts[i]) tiles[c * rows + rowOf[b]] += counts[i];
  Object.assign(cell, { counts, tiles, rows, at: Float64Array.from(columns_, (edge) => data.cube.edges[edge]), range, box, lines: [] });
  return { ...range, most: tiles.reduce((a, b) => Math.max(a, b), 1) };
}

function drawHeat(pen, box, data, range, cell) {
  for (let ns = 10 ** Math.ceil(Math.log10(range.low) - 1e-9); ns <= range.high; ns *= 10) {
    const y = sharp(yOfLatency(box, range, ns) - 0.5);
    penLine(pen, axis.left, y, axis.left + plotWidth(), y, paper().line);
    penText(pen, axisText(ns, "ns"), axis.left - 6, y, { align: "right", size: 10.5 });
  }
  clipToPlot(pen, box);
  drawHeatTiles(pen, box, cell, range.most);
  data.ops.forEach((op, k) => HEAT_LINES.forEach((line) => drawPercentile(pen, box, data, range, cell, k, line)));
  cell.note.textContent = `faint to strong: 1 to ${countText(range.most)} requests a cell`;
}

function drawHeatTiles(pen, box, { tiles, rows, at }, most) {
  const inks = inksOf(paper().heat.map(rgbOf));
  drawPixels(pen, box, (words, width, height, scale) => {
    const x = Array.from(at, (ns) => Math.round((xOfTime(ns) - axis.left) * scale));
    for (let c = 0; c < x.length - 1; c++)
      for (let r = 0; r < rows; r++) {
        const count = tiles[c * rows + r];
        if (!count) continue;
        const ink = inks[Math.round(shareOf(count, most) * INKS)], right = Math.min(width, Math.max(x[c + 1], x[c] + 1));
        const low = Math.min(height, Math.round((r + 1) * HEAT_CELL_PX * scale));
        for (let py = Math.round(r * HEAT_CELL_PX * scale); py < low; py++) words.fill(ink, py * width + Math.max(0, x[c]), py * width + right);
      }
  });
}

// The bucket of each column's percentile, as the table of percentiles has it.
function drawPercentile(pen, box, data, range, cell, k, line) {
  const { at, counts } = cell, { buckets, ops } = data, op = ops[k], values = new Float64Array(Math.max(0, at.length - 1)).fill(NaN);
  for (let c = 0; c < values.length; c++) {
    const first = (c * ops.length + k) * buckets;
    let all = 0, before = 0;
    for (let b = 0; b < buckets; b++) all += counts[first + b];
    for (let b = 0; b < buckets && all; b++) {
      before += counts[first + b];
      if (before > rankOf(line.percent, all)) {
        values[c] = data.middle[b];
        break;
      }
    }
  }
  const look = HEAT_OPS[op] ?? HEAT_OTHER;
  for (const [color, width] of [[paper().ground, line.width + 1.4], [colorOf(look), line.width]]) {  // a halo: seen on any tile
    pen.strokeStyle = color;
    pen.lineWidth = width;
    pen.setLineDash(look.dash);
    pen.beginPath();
    values.forEach((value, c) => {
      if (Number.isNaN(value)) return;
      const y = yOfLatency(box, range, value);
      if (c && !Number.isNaN(values[c - 1])) pen.lineTo(xOfTime(at[c]), y);
      else pen.moveTo(xOfTime(at[c]), y);
      pen.lineTo(xOfTime(at[c + 1]), y);
    });
    pen.stroke();
  }
  pen.setLineDash([]);
  cell.lines.push({ color: colorOf(look), name: `${op}: ${line.name}`, values });
}

function readHeatAt(data, time, y, cell) {
  const c = cell.at ? columnAt(cell.at, time) : -1;
  if (c < 0) return null;
  const rows = cell.lines.filter((line) => !Number.isNaN(line.values[c])).map((line) => ({ color: line.color, name: line.name, value: nsText(line.values[c]) }));
  const r = Math.floor((y - cell.box.top) / HEAT_CELL_PX);
  const ns = (row) => cell.range.high * (cell.range.low / cell.range.high) ** ((row * HEAT_CELL_PX) / cell.box.height);
  if (r >= 0 && r < cell.rows)
    rows.push({ name: `requests of ${nsText(ns(r + 1))} to ${nsText(ns(r))}`, value: countText(cell.tiles[c * cell.rows + r]) });
  return { rows, notes: [`over ${nsText(cell.at[c + 1] - cell.at[c])}`] };
}
