// SPDX-License-Identifier: BSD-2-Clause
// Single requests in the offset map, where the page has every one in view: drawn one by one where they are few and lie
// apart, else counted in tiles finer than the map's own.

const MOST_POINTS = 4000;  // in one picture
const LEAST_APART = 0.7;  // share of the points that have a place of their own
const PLACE_PX = 4;
const NEAR_PX = 8;

const pointRows = new Map();  // run: its rows' columns, when they are read

// The rows of all runs are the largest part of the page: they are read last.
async function loadPoints() {
  for (const run of runs) {
    const rows = await rowsOf(run);
    if (rows !== null && rows.kinds !== null) pointRows.set(run, { ...rows, op: labelOf(rows.kinds, "op"), class: labelOf(rows.kinds, "class") });
  }
}

function labelOf(cube, name) {
  const label = cube.labels.find((one) => one.name === name);
  return label ? Array.from(label.codes, (code) => label.words[code]) : [];
}

// The requests of a map in view, and whether they are drawn one by one; rows: null where some are missing.
function pointsInView(box, data, offsets) {
  const { run, map, op } = data, read = pointRows.get(run), no = (why, rows = null) => ({ drawn: false, rows, why });
  if (!run.rows) return no("");
  if (!read) return no("single requests are being read");
  if (!isComplete(read, { start_ns: Math.max(view.start_ns, run.start_ns), end_ns: Math.min(view.end_ns, run.end_ns) }))
    return no("of single requests this page has only some here");
  const [first, last] = rowRange(read, view), rows = [], dev = run.rows.devs.indexOf(map.dev), places = new Set();
  for (let i = first; i < last; i++) {
    const byte = read.sector[i] * SECTOR_BYTES;
    if (read.dev[i] !== dev || (read.op[read.kind[i]] === "read") !== (op === "read") || !(read.bytes[i] > 0) || byte < 0) continue;
    if (byte >= offsets.to || byte + read.bytes[i] <= offsets.from) continue;
    if (rows.push(i) <= MOST_POINTS) places.add(Math.floor(xOfTime(read.t_us[i] * 1000) / PLACE_PX) * 4096 + Math.floor(yOfByte(box, offsets, byte) / PLACE_PX));
  }
  if (rows.length > MOST_POINTS) return no(`single requests where at most ${countText(MOST_POINTS)} are in view`, rows);
  if (rows.length > 20 && places.size < LEAST_APART * rows.length) return no("single requests where they lie apart", rows);
  return { drawn: true, rows, why: "" };
}

// Tiles as countTiles() makes them, of single requests: their sides are powers of two, of ns and of bytes.
function countRows(box, data, offsets, rows) {
  const read = pointRows.get(data.run), power = (least) => 2 ** Math.ceil(Math.log2(Math.max(least, 1)));
  const ns = Math.max(1024, power((viewLength() * MAP_CELL_PX) / plotWidth())), bytes = Math.max(SECTOR_BYTES, power(((offsets.to - offsets.from) * MAP_CELL_PX) / box.height));
  const left = Math.floor(view.start_ns / ns), across = Math.ceil(view.end_ns / ns) - left;
  const low = Math.floor(offsets.from / bytes), up = Math.ceil(offsets.to / bytes) - low;
  const counts = data.kinds.map(() => new Float64Array(across * up)), kindOf = kindsByText(data);
  let most = 1;
  for (const i of rows) {
    const k = kindOf.get(`${read.op[read.kind[i]]} ${read.class[read.kind[i]]}`), r = Math.floor((read.sector[i] * SECTOR_BYTES) / bytes) - low;
    if (k === undefined || r < 0 || r >= up) continue;
    const count = ++counts[k][(Math.floor((read.t_us[i] * 1000) / ns) - left) * up + r];
    if (count > most) most = count;
  }
  const edges = (n, from, step) => Float64Array.from({ length: n + 1 }, (_, i) => (from + i) * step);
  return { counts, across, up, times: edges(across, left, ns), from: edges(up, low, bytes), most, ns, bytes };
}

const kindsByText = (data) => new Map(data.kinds.map((kind, k) => [`${kind.op} ${kind.class}`, k]));

// A write is a square, a read a disc, anything else a cross; its side grows with its bytes, its tail ends when it completed (D2C).
function drawPoints(pen, box, data, offsets, { rows }, cell) {
  const read = pointRows.get(data.run), ground = theme.printing ? "light" : theme.name;
  const color = new Map(data.kinds.map((kind) => [`${kind.op} ${kind.class}`, rampOf(kind, ground)[1]]));
  cell.points = [];
  const tails = rows.length <= 1500;
  for (const i of rows) {
    const op = read.op[read.kind[i]], ink = color.get(`${op} ${read.class[read.kind[i]]}`) ?? paper().quiet;
    const byte = read.sector[i] * SECTOR_BYTES, x = xOfTime(read.t_us[i] * 1000), y = yOfByte(box, offsets, byte + read.bytes[i] / 2);
    const side = Math.max(4, Math.min(14, 3 + Math.log2(Math.max(read.bytes[i], 4096) / 4096)));
    const tall = Math.max(side, (read.bytes[i] / (offsets.to - offsets.from)) * box.height);
    const took = Math.max(read.d2c_ns[i], 0);  // issued: given to the device
    const end = xOfTime(read.t_us[i] * 1000 + took);
    if (tails && end > x + side / 2) penLine(pen, x, y, end, y, ink, 1.2);
    pen.fillStyle = ink;
    pen.strokeStyle = paper().outline;
    pen.lineWidth = 0.8;
    pen.beginPath();
    if (op === "read") pen.arc(x, y, side / 2, 0, 7);
    else if (op === "write") pen.rect(x - side / 2, y - tall / 2, side, tall);
    else {
      for (const turn of [-1, 1]) {
        pen.moveTo(x - side / 2, y - (turn * side) / 2);
        pen.lineTo(x + side / 2, y + (turn * side) / 2);
      }
      pen.strokeStyle = ink;
      pen.lineWidth = 2;
    }
    pen.fill();
    pen.stroke();
    cell.points.push({ i, x, y, end: tails ? end : x, tall });
  }
}

function nearestPoint(points, x, y) {
  let nearest = null, least = NEAR_PX;
  for (const point of points) {
    const across = x < point.x ? point.x - x : Math.max(0, x - point.end), up = Math.max(0, Math.abs(y - point.y) - point.tall / 2);
    const distance = Math.hypot(across, up) + (x > point.x + 4 ? 1 : 0);
    if (distance < least) [nearest, least] = [point.i, distance];
  }
  return nearest;
}

function pointText({ run }, i) {
  const read = pointRows.get(run), { files, threads } = read, known = (ns) => (ns < 0 ? "not seen" : nsText(ns));
  const row = (name, value) => ({ name, value });
  return {
    head: `${read.op[read.kind[i]]} ${read.class[read.kind[i]]}`,
    rows: [
      row("issued", `${secondsText(read.t_us[i] * 1000, 1000)} s`), row("offset", `${bytesText(read.sector[i] * SECTOR_BYTES)} (sector ${countText(read.sector[i])})`),
      row("size", bytesText(read.bytes[i])), row("queued, Q2D", known(read.q2d_ns[i])), row("at the device, D2C", known(read.d2c_ns[i])),
      row("file", read.file[i] ? files[read.file[i] - 1] : "not known"), row("thread", threads[read.thread[i]] ?? "not known"),
    ],
    notes: [],
  };
}
