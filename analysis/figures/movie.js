// SPDX-License-Identifier: BSD-2-Clause
// The movie's player: unpacks the frames that analysis/figures/movie.py packed, and draws one frame at a time.
// All words come from the page's data and are drawn as text; nothing is fetched.
"use strict";

const LEFT = 78, CELL_W = 12, SIDE = 214, GAP = 14, PANEL_GAP = 20;
const INK = "#1a1a1a", QUIET = "#666666", LINE = "#dedede", BEFORE = "#e9e9e9", ALARM = "#a00000";
const FONT = '"DejaVu Sans", system-ui, sans-serif';

const movie = JSON.parse(document.getElementById("movie").textContent);
const canvas = document.getElementById("screen");
const pen = canvas.getContext("2d");
const gridWidth = movie.columns * CELL_W;
const cellHeight = Math.max(9, Math.min(14, Math.floor(560 / movie.lines.length)));
const width = LEFT + gridWidth + GAP + SIDE;
const state = { frame: 0, time: movie.start_s, playing: false, pointer: null };
let frames;  // what unpack() returns

// --- numbers as words, as in the report ------------------------------------------------------------------

function figures(value) {
  if (value === 0) return "0";
  const places = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
}

function bytesInWords(value) {
  for (const [unit, factor] of [["EB", 1e18], ["PB", 1e15], ["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
    if (value >= factor * 0.9995) return figures(value / factor) + " " + unit;
  return value + " B";
}

const count = (value) => value.toLocaleString("en-US");

// --- the frames -------------------------------------------------------------------------------------------

// Four columns of numbers, one after the other: entries a frame; for each entry the distance of its key (kind *
// cells + cell) from the key before in its frame, its requests, its bytes. A number is 7 bits a byte, lowest
// first, the top bit set on all but its last.
async function unpack() {
  const packed = Uint8Array.from(atob(movie.packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const raw = new Uint8Array(await new Response(stream).arrayBuffer());
  let at = 0;
  const number = () => {
    let value = 0, factor = 1, byte;
    do {
      byte = raw[at++];
      value += (byte & 127) * factor;  // no shifts: sums of bytes do not fit into 32 bits
      factor *= 128;
    } while (byte & 128);
    return value;
  };
  const first = new Uint32Array(movie.frames + 1);
  for (let i = 0; i < movie.frames; i++) first[i + 1] = first[i] + number();
  const entries = first[movie.frames];
  const kind = new Uint8Array(entries), cell = new Uint32Array(entries);
  const requests = new Uint32Array(entries), bytes = new Float64Array(entries);
  for (let i = 0; i < movie.frames; i++)
    for (let j = first[i], key = 0; j < first[i + 1]; j++) {
      key += number();
      kind[j] = Math.floor(key / movie.cells);
      cell[j] = key % movie.cells;
    }
  for (let j = 0; j < entries; j++) requests[j] = number();
  for (let j = 0; j < entries; j++) bytes[j] = number();
  const found = { first, kind, cell, requests, bytes, ...summed(first, kind, cell, requests, bytes) };
  found.kinds.forEach((sums, k) => {
    if (sums.requests !== movie.totals[k][0] || sums.bytes !== movie.totals[k][1])
      throw new Error("the frames do not add up to the run's totals: this file is damaged");
  });
  return found;
}

function summed(first, kind, cell, requests, bytes) {
  const kinds = movie.kinds.map(() => ({ requests: 0, bytes: 0 }));
  const cells = Array.from({ length: movie.cells }, () => ({ requests: 0, bytes: 0, firstFrame: movie.frames }));
  const written = new Float64Array(movie.frames), read = new Float64Array(movie.frames);
  let low = Infinity, high = 0;
  for (let i = 0; i < movie.frames; i++)
    for (let j = first[i]; j < first[i + 1]; j++) {
      for (const sums of [kinds[kind[j]], cells[cell[j]]]) {
        sums.requests += requests[j];
        sums.bytes += bytes[j];
      }
      const one = cells[cell[j]];
      one.firstFrame = Math.min(one.firstFrame, i);
      const op = movie.kinds[kind[j]].op;
      if (op === "write") written[i] += bytes[j];
      if (op === "read") read[i] += bytes[j];
      low = Math.min(low, bytes[j]);
      high = Math.max(high, bytes[j]);
    }
  return { kinds, cells, written, read, low, high };
}

const lengthOf = (frame) => (frame === movie.frames - 1 ? movie.last_frame_s : movie.frame_s);
const startOf = (frame) => movie.start_s + frame * movie.frame_s;
const frameAt = (time) => Math.max(0, Math.min(movie.frames - 1, Math.floor((time - movie.start_s) / movie.frame_s + 1e-9)));

// --- drawing --------------------------------------------------------------------------------------------

const ramps = movie.kinds.map((kind) => kind.ramp.map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16))));

// The ink of so many bytes: along the class's ramp by their logarithm.
function ink(kind, bytes) {
  const { low, high } = frames;
  const strength = high > low ? (2 * Math.log(bytes / low)) / Math.log(high / low) : 1;
  const ramp = ramps[kind], i = strength >= 1 ? 1 : 0;
  return ramp[i].map((from, k) => from + (ramp[i + 1][k] - from) * (strength - i));
}

const css = (rgb, alpha = 1) => `rgba(${rgb.map(Math.round).join(",")},${alpha})`;

function write(words, x, y, { size = 12, color = INK, bold = false, align = "left", room = Infinity } = {}) {
  pen.font = `${bold ? "bold " : ""}${size}px ${FONT}`;
  pen.fillStyle = color;
  pen.textAlign = align;
  if (pen.measureText(words).width > room) {
    while (words.length > 1 && pen.measureText(words + "…").width > room) words = words.slice(0, -1);
    words += "…";
  }
  pen.fillText(words, x, y);
  return pen.measureText(words).width;
}

// A write is a square, a read a disc, a discard a cross: told apart without colour, and none covers another.
function shape(op, x, y, w, h, color, edge) {
  pen.lineWidth = 1;
  if (op === "write") {
    pen.fillStyle = color;
    pen.fillRect(x, y, w, h);
    if (edge) {
      pen.strokeStyle = edge;
      pen.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    }
  } else if (op === "read") {
    const radius = Math.min(w, h) * 0.36;
    pen.beginPath();
    pen.arc(x + w / 2, y + h / 2, radius, 0, 7);
    pen.fillStyle = color;
    pen.fill();
    pen.lineWidth = edge ? 1.6 : 1;
    pen.strokeStyle = edge || "rgba(255,255,255,.8)";
    pen.stroke();
  } else {
    pen.lineWidth = 2;
    pen.strokeStyle = color;
    pen.beginPath();
    for (const [a, b] of [[1, -1], [-1, 1]]) {
      pen.moveTo(x + w / 2 - 0.38 * w, y + h / 2 - 0.38 * h * a);
      pen.lineTo(x + w / 2 + 0.38 * w, y + h / 2 - 0.38 * h * b);
    }
    pen.stroke();
  }
}

const layout = {};

function place() {
  let y = 58 + 16 * movie.banners.length;
  layout.legend = y;
  y += 40;
  layout.grid = y;
  layout.cells = [];  // of each cell, where it is
  layout.lines = [];
  let device = -1;
  for (const line of movie.lines) {
    if (movie.devices.length > 1 && line.device !== device) {
      y += 18;
      layout.lines.push({ y: y - 5, words: movie.devices[line.device], heading: true });
    }
    device = line.device;
    const height = line.gap ? 14 : cellHeight;
    layout.lines.push({ ...line, y, height });
    if (!line.gap) for (let i = 0; i < movie.columns; i++) layout.cells.push([LEFT + i * CELL_W, y]);
    y += height;
  }
  layout.gridEnd = y;
  y = Math.max(y, layout.grid + 290);
  layout.strip = y + 12;
  y = layout.strip + (movie.phases.length ? 18 : 0);
  const panel = (height) => {
    const top = y + PANEL_GAP;
    y = top + height;
    return { top, height };
  };
  layout.throughput = panel(76);
  layout.seeks = panel(46);
  layout.depth = panel(46);
  layout.axis = y;
  layout.height = y + 38;
}

function drawHead() {
  write(movie.title, 10, 24, { size: 17, bold: true, room: width - 230 });
  write(movie.subtitle, 10, 44, { size: 11.5, color: QUIET, room: width - 230 });
  movie.banners.forEach((words, i) => write("! " + words, 10, 62 + 16 * i, { bold: true, color: ALARM, room: width - 20 }));
  const f = state.frame, right = width - 10;
  write(`${(startOf(f)).toFixed(movie.decimals)} s`, right, 26, { size: 20, bold: true, align: "right" });
  write(`frame ${count(f + 1)} of ${count(movie.frames)}, ${movie.frame_words} each`, right, 44, { size: 11.5, color: QUIET, align: "right" });
  // two rows of legend: classes and shapes; then what strength, outline, grey and violet mean
  let x = LEFT, y = layout.legend + 10;
  const put = (words, draw) => {
    draw(x, y - 9);
    x += 15;
    x += write(words, x, y, { size: 11 }) + 13;
  };
  const seen = new Set();
  movie.kinds.forEach((kind, k) => {
    if (seen.has(kind.class) || !frames.kinds[k].requests) return;
    seen.add(kind.class);
    put(kind.class, (a, b) => ramps[k].forEach((rgb, i) => { pen.fillStyle = css(rgb); pen.fillRect(a + i * 4, b, 4, 11); }));
  });
  x += 8;
  for (const op of ["write", "read", "discard"])
    if (movie.kinds.some((kind, k) => kind.op === op && frames.kinds[k].requests))
      put(op, (a, b) => shape(op, a, b, 11, 11, "#8c8c8c", op === "discard" ? null : INK));
  x += 8;
  put(`light to dark: ${bytesInWords(frames.low)} to ${bytesInWords(frames.high)} a cell and frame`, () => { x -= 15; });
  x = LEFT;
  y += 18;
  put("in this frame", (a, b) => shape("write", a, b, 11, 11, "#c8c8c8", INK));
  put(`fading: in the ${movie.fade_words} before`, (a, b) => [0.8, 0.5, 0.2].forEach((alpha, i) => { pen.fillStyle = `rgba(90,90,90,${alpha})`; pen.fillRect(a + i * 4, b, 4, 11); }));
  put("earlier", (a, b) => shape("write", a, b, 11, 11, BEFORE, LINE));
  put("not yet", (a, b) => shape("write", a, b, 11, 11, "#fff", LINE));
  movie.outlined.forEach((kind, i) => {
    if (outlined(kind.kind).size)
      put(`${kind.kind}: the file system's own place for it`, (a, b) => {
        borderPen(kind);
        pen.strokeRect(a + i, b + i, 11 - 2 * i, 11 - 2 * i);
        pen.setLineDash([]);
      });
  });
}

// What each cell shows now: of each shape the inks of its classes, the newer the heavier, mixed.
function glowing() {
  const found = new Map();
  for (let age = Math.min(movie.fade_frames - 1, state.frame); age >= 0; age--) {
    const frame = state.frame - age, weight = 1 - age / movie.fade_frames;
    for (let j = frames.first[frame]; j < frames.first[frame + 1]; j++) {
      const key = movie.ops.indexOf(movie.kinds[frames.kind[j]].op) * movie.cells + frames.cell[j];
      let one = found.get(key);
      if (!one || (age === 0 && !one.now)) found.set(key, (one = { sum: [0, 0, 0], weight: 0, strongest: 0, now: age === 0 }));
      ink(frames.kind[j], frames.bytes[j]).forEach((value, k) => (one.sum[k] += value * weight));
      one.weight += weight;
      one.strongest = Math.max(one.strongest, weight);
    }
  }
  return found;
}

function drawGrid() {
  for (const line of layout.lines) {
    if (line.heading) {
      write(line.words, LEFT, line.y, { size: 11, bold: true, room: gridWidth });
    } else if (line.gap) {
      pen.fillStyle = "#f4f4f4";
      pen.fillRect(LEFT, line.y + 1, gridWidth, line.height - 2);
      write(line.gap, LEFT + gridWidth / 2, line.y + line.height - 4, { size: 8.5, color: QUIET, align: "center" });
    } else if (line.label) {
      write(line.label, LEFT - 6, line.y + cellHeight - 2, { size: 9.5, color: QUIET, align: "right" });
    }
  }
  layout.cells.forEach(([x, y], i) => {
    pen.fillStyle = frames.cells[i].firstFrame < state.frame ? BEFORE : "#fff";
    pen.fillRect(x, y, CELL_W, cellHeight);
  });
  pen.strokeStyle = LINE;
  pen.lineWidth = 1;
  for (const line of layout.lines)
    if (!line.gap && !line.heading) {
      pen.beginPath();
      for (let i = 0; i <= movie.columns; i++) {
        pen.moveTo(LEFT + i * CELL_W + 0.5, line.y);
        pen.lineTo(LEFT + i * CELL_W + 0.5, line.y + cellHeight);
      }
      for (const y of [line.y + 0.5, line.y + cellHeight + 0.5]) {
        pen.moveTo(LEFT, y);
        pen.lineTo(LEFT + gridWidth, y);
      }
      pen.stroke();
    }
  const glow = [...glowing()].sort((a, b) => a[0] - b[0]);  // discs and crosses above squares
  for (const [key, one] of glow) {
    const [x, y] = layout.cells[key % movie.cells], op = movie.ops[Math.floor(key / movie.cells)];
    const color = css(one.sum.map((value) => value / one.weight), one.now ? 1 : 0.9 * one.strongest);
    shape(op, x + 1, y + 1, CELL_W - 1, cellHeight - 1, color, one.now && op !== "discard" ? INK : null);
  }
  movie.outlined.forEach((kind, i) => drawOutlines(kind, i * 1.5));
}

// The cells that hold something of the file system's areas of a kind.
function outlined(kind) {
  const inside = new Set();
  for (const area of movie.areas)
    if (area.kind === kind)
      for (const [first, last] of area.ranges) for (let i = first; i <= last; i++) inside.add(i);
  return inside;
}

function borderPen({ color, dash }) {
  pen.lineWidth = 1.5;
  pen.strokeStyle = color;
  pen.setLineDash(dash);
}

// The border of such cells: the sides at which the next cell is none of them. The kinds do not cover each other.
function drawOutlines(kind, inset) {
  const inside = outlined(kind.kind);
  borderPen(kind);
  pen.beginPath();
  const side = (x1, y1, x2, y2) => {
    pen.moveTo(x1, y1);
    pen.lineTo(x2, y2);
  };
  // is there such a cell, in the row that really lies above or below?
  const has = (cell, y) => inside.has(cell) && layout.cells[cell][1] === y;
  for (const i of inside) {
    const [x, y] = layout.cells[i], column = i % movie.columns, right = x + CELL_W, low = y + cellHeight;
    if (!has(i - movie.columns, y - cellHeight)) side(x, y + inset, right, y + inset);
    if (!has(i + movie.columns, low)) side(x, low - inset, right, low - inset);
    if (column === 0 || !inside.has(i - 1)) side(x + inset, y, x + inset, low);
    if (column === movie.columns - 1 || !inside.has(i + 1)) side(right - inset, y, right - inset, low);
  }
  pen.stroke();
  pen.setLineDash([]);
}

// The column beside the grid: this frame in numbers, the cell under the pointer, and all up to now.
function drawSide() {
  const f = state.frame, x = LEFT + gridWidth + GAP, right = width - 10;
  let y = layout.grid + 10;
  const row = (name, value, options = {}) => {
    write(name, x, y, { size: 11, room: SIDE - 10, ...options });
    write(value, right, y, { size: 11, align: "right" });
    y += 16;
  };
  const now = movie.kinds.map(() => [0, 0]);
  for (let j = frames.first[f]; j < frames.first[f + 1]; j++) {
    now[frames.kind[j]][0] += frames.requests[j];
    now[frames.kind[j]][1] += frames.bytes[j];
  }
  row("in this frame" + (movie.mark && " " + movie.mark), "", { bold: true });
  movie.kinds.forEach((kind, k) => {
    if (!frames.kinds[k].requests) return;
    shape(kind.op, x, y - 9, 10, 10, css(ramps[k][1]), null);
    write(kind.op === kind.class ? kind.op : `${kind.op} ${kind.class}`, x + 15, y, { size: 11, color: now[k][0] ? INK : QUIET });
    write(count(now[k][0]), right - 62, y, { size: 11, align: "right", color: now[k][0] ? INK : QUIET });
    write(bytesInWords(now[k][1]), right, y, { size: 11, align: "right", color: now[k][0] ? INK : QUIET });
    y += 16;
  });
  row("without a place (flush)", count(movie.placeless[f]));
  row("seeks", count(movie.seeks[f]));
  row("queue depth, mean", figures(movie.depth[f]));
  const phase = movie.phases.filter((one) => one.start_s <= startOf(f) + lengthOf(f) / 2 && startOf(f) + lengthOf(f) / 2 < one.end_s);
  if (movie.phases.length) row("phase", phase.length ? phase[phase.length - 1].name : "none");
  y += 8;
  row("in the whole run" + (movie.mark && " " + movie.mark), "", { bold: true });
  row("requests", count(movie.rows));
  row("read and written", bytesInWords(frames.kinds.reduce((sum, kind, k) => sum + (movie.kinds[k].op === "discard" ? 0 : kind.bytes), 0)));
  row("seeks", count(movie.seeks.reduce((a, b) => a + b, 0)));
  y += 8;
  const cell = pointedCell();
  if (cell < 0) {
    write("point at a cell to see it in numbers", x, y, { size: 9.5, color: QUIET, room: SIDE });
    return;
  }
  const here = frames.cells[cell], line = movie.lines.filter((one) => !one.gap)[Math.floor(cell / movie.columns)];
  let requests = 0, bytes = 0;
  for (let j = frames.first[f]; j < frames.first[f + 1]; j++)
    if (frames.cell[j] === cell) {
      requests += frames.requests[j];
      bytes += frames.bytes[j];
    }
  const offset = line.offset + (cell % movie.columns) * movie.cell_bytes;
  row(`cell at ${bytesInWords(offset)}`, "", { bold: true });
  row("in this frame", `${count(requests)}, ${bytesInWords(bytes)}`);
  row("in the whole run", `${count(here.requests)}, ${bytesInWords(here.bytes)}`);
  for (const group of movie.groups)
    if (group.device === line.device && offset + movie.cell_bytes > group.first_byte && offset < group.end_byte)
      row(group.name, count(Math.max(0, Math.floor((offset - group.first_byte) / group.bytes))));
  for (const area of movie.areas)
    if (area.ranges.some(([first, last]) => first <= cell && cell <= last)) row(`holds ${area.name}`, "");
}

function pointedCell() {
  if (!state.pointer) return -1;
  const [px, py] = state.pointer;
  return layout.cells.findIndex(([x, y]) => px >= x && px < x + CELL_W && py >= y && py < y + cellHeight);
}

const span = movie.end_s - movie.start_s;
const xOf = (time) => LEFT + ((time - movie.start_s) / span) * gridWidth;

function niceStep(range, steps) {
  const power = 10 ** Math.floor(Math.log10(range / steps));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => range / step <= steps);
}

function drawPanel({ top, height }, title, lines) {
  const highest = Math.max(1e-9, ...lines.map(({ values }) => values.reduce((a, b) => Math.max(a, b), 0)));
  const step = niceStep(highest, 3), y = (value) => top + height - (value / (highest * 1.04)) * height;
  pen.fillStyle = "#fff";
  pen.lineWidth = 1;
  for (let tick = 0; tick <= highest * 1.04; tick += step) {
    pen.strokeStyle = LINE;
    pen.beginPath();
    pen.moveTo(LEFT, Math.round(y(tick)) + 0.5);
    pen.lineTo(LEFT + gridWidth, Math.round(y(tick)) + 0.5);
    pen.stroke();
    write(tick >= 1e6 ? figures(tick / 1e6) + " M" : (+tick.toPrecision(6)).toLocaleString("en-US"), LEFT - 6, y(tick) + 3.5, { size: 9.5, color: QUIET, align: "right" });
  }
  write(title, LEFT, top - 6, { size: 11, bold: true });
  lines.forEach(({ values, color, dash, name }, k) => {
    pen.strokeStyle = pen.fillStyle = color;
    pen.lineWidth = 1.3;
    pen.setLineDash(dash || []);
    pen.beginPath();
    pen.moveTo(xOf(movie.start_s), y(values[0]));
    for (let i = 0; i < movie.frames; i++) {
      pen.lineTo(xOf(startOf(i)), y(values[i]));
      pen.lineTo(xOf(startOf(i) + lengthOf(i)), y(values[i]));
    }
    pen.stroke();
    const x = LEFT + gridWidth + GAP, at = top + 10 + 16 * k;
    pen.beginPath();
    pen.moveTo(x, at - 4);
    pen.lineTo(x + 20, at - 4);
    pen.stroke();
    pen.setLineDash([]);
    write(name, x + 26, at, { size: 11 });
    write(figures(values[state.frame]), width - 10, at, { size: 11, align: "right" });
  });
}

function drawTimes() {
  movie.phases.forEach((phase) => {
    const x = xOf(phase.start_s), w = xOf(phase.end_s) - x;
    pen.fillStyle = phase.color;
    pen.fillRect(x, layout.strip, Math.max(w, 1), 16);
    pen.font = `10.5px ${FONT}`;
    if (pen.measureText(phase.label).width + 6 <= w)
      write(phase.label, x + w / 2, layout.strip + 12, { size: 10.5, align: "center" });
  });
  if (movie.phases.length) write("phase", LEFT - 6, layout.strip + 12, { size: 9.5, color: QUIET, align: "right" });
  const perSecond = (values, factor = 1) => Array.from(values, (value, i) => (value * factor) / lengthOf(i));
  drawPanel(layout.throughput, "Throughput of the disk, MB/s (10⁶ bytes)", [
    { values: perSecond(frames.written, 1e-6), color: movie.colors.write, name: "write" },
    { values: perSecond(frames.read, 1e-6), color: movie.colors.read, dash: [4, 2], name: "read" },
  ]);
  drawPanel(layout.seeks, "Seeks per second", [{ values: perSecond(movie.seeks), color: INK, name: "seeks/s" }]);
  drawPanel(layout.depth, "Queue depth, requests", [{ values: movie.depth, color: movie.colors.depth, name: "at the device" }]);
  const step = niceStep(span, 10);
  for (let tick = Math.ceil(movie.start_s / step) * step; tick <= movie.end_s; tick += step) {
    pen.strokeStyle = "#888";
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(Math.round(xOf(tick)) + 0.5, layout.axis);
    pen.lineTo(Math.round(xOf(tick)) + 0.5, layout.axis + 4);
    pen.stroke();
    write(+tick.toPrecision(6) + "", xOf(tick), layout.axis + 16, { size: 9.5, color: QUIET, align: "center" });
  }
  write(movie.time_words, LEFT + gridWidth / 2, layout.axis + 31, { size: 11, align: "center" });
  // the cursor: as wide as the frame
  const x = xOf(startOf(state.frame));
  pen.fillStyle = "rgba(160,0,0,.18)";
  pen.fillRect(x - 2, layout.strip, Math.max(xOf(startOf(state.frame) + lengthOf(state.frame)) - x, 1) + 4, layout.axis - layout.strip);
  pen.fillStyle = ALARM;
  pen.fillRect(x, layout.strip, Math.max(xOf(startOf(state.frame) + lengthOf(state.frame)) - x, 1), layout.axis - layout.strip);
}

function draw() {
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(layout.height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(layout.height * scale);
  }
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, width, layout.height);
  drawHead();
  drawGrid();
  drawSide();
  drawTimes();
}

// --- controls -------------------------------------------------------------------------------------------

const control = (name) => document.getElementById(name);

function show(time) {
  state.time = Math.max(movie.start_s, Math.min(movie.end_s, time));
  state.frame = frameAt(state.time);
  control("time").value = state.frame;
  control("time").setAttribute("aria-valuetext", `${startOf(state.frame).toFixed(movie.decimals)} seconds`);
  draw();
}

function play(on) {
  state.playing = on;
  control("play").textContent = on ? "Pause" : "Play";
  if (!on) return;
  if (state.frame === movie.frames - 1) state.time = movie.start_s;
  let before = performance.now();
  const tick = (now) => {
    if (!state.playing) return;
    const time = state.time + ((now - before) / 1000) * Number(control("speed").value);
    before = now;
    if (time >= movie.end_s) {
      show(movie.end_s);
      play(false);
      return;
    }
    show(time);
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}

const step = (frames_) => {
  play(false);
  show(startOf(Math.max(0, Math.min(movie.frames - 1, state.frame + frames_))) + movie.frame_s / 4);
};

function savePicture() {
  canvas.toBlob((picture) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(picture);
    link.download = `movie-${startOf(state.frame).toFixed(movie.decimals)}s.png`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
}

// #t=12.5: that moment, not playing
function fromHash() {
  const found = /^#t=(-?[0-9.]+)$/.exec(window.location.hash);
  if (found) {
    play(false);
    show(Number(found[1]));
  }
  return found !== null;
}

function at(event) {
  const box = canvas.getBoundingClientRect();
  return [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * layout.height];
}

function listen() {
  control("time").max = movie.frames - 1;
  control("time").oninput = (event) => { play(false); show(startOf(Number(event.target.value)) + movie.frame_s / 4); };
  control("play").onclick = () => play(!state.playing);
  control("back").onclick = () => step(-1);
  control("on").onclick = () => step(1);
  control("save").onclick = savePicture;
  document.onkeydown = (event) => {
    const to = { " ": () => play(!state.playing), ArrowLeft: () => step(-1), ArrowRight: () => step(1) }[event.key];
    if (!to || ["SELECT", "INPUT", "BUTTON"].includes(event.target.tagName)) return;
    event.preventDefault();
    to();
  };
  const seek = (event) => {
    const [x, y] = at(event);
    if (y >= layout.strip && event.buttons) {
      play(false);
      show(movie.start_s + ((x - LEFT) / gridWidth) * span);
    }
  };
  canvas.onmousedown = seek;
  canvas.onmousemove = (event) => { state.pointer = at(event); seek(event); if (!state.playing) draw(); };
  canvas.onmouseleave = () => { state.pointer = null; if (!state.playing) draw(); };
  window.onhashchange = fromHash;
}

async function main() {
  try {
    frames = await unpack();
  } catch (error) {
    document.getElementById("trouble").textContent =
      typeof DecompressionStream === "undefined" ? "This browser is too old for this page: it needs DecompressionStream." : String(error);
    return;
  }
  place();
  canvas.style.width = width + "px";
  listen();
  if (fromHash()) return;
  show(movie.start_s);
  play(!window.matchMedia("(prefers-reduced-motion: reduce)").matches);
}

main();
