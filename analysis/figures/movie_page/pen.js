// SPDX-License-Identifier: BSD-2-Clause
// The canvas, the layout on it, and how text, colours and shapes are drawn. Text of the run is drawn as text, never
// parsed.

const LEFT = 78, CELL_W = 12, SIDE = 214, GAP = 14, PANEL_GAP = 20;
const INK = "#1a1a1a", QUIET = "#666666", LINE = "#dedede", BEFORE = "#e9e9e9", ALARM = "#a00000";
const FONT = '"DejaVu Sans", system-ui, sans-serif';

const canvas = document.getElementById("screen");
const pen = canvas.getContext("2d");
const gridWidth = movie.columns * CELL_W;
const cellHeight = Math.max(9, Math.min(14, Math.floor(560 / movie.lines.length)));
const width = LEFT + gridWidth + GAP + SIDE;

const ramps = movie.kinds.map((kind) => kind.ramp.map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16))));

// The ink of a number of bytes: its logarithm's position on the ramp of the class.
function ink(kind, bytes) {
  const { low, high } = frames;
  const strength = high > low ? (2 * Math.log(bytes / low)) / Math.log(high / low) : 1;
  const ramp = ramps[kind], i = strength >= 1 ? 1 : 0;
  return ramp[i].map((from, k) => from + (ramp[i + 1][k] - from) * (strength - i));
}

const css = (rgb, alpha = 1) => `rgba(${rgb.map(Math.round).join(",")},${alpha})`;

function write(text, x, y, { size = 12, color = INK, bold = false, align = "left", room = Infinity } = {}) {
  pen.font = `${bold ? "bold " : ""}${size}px ${FONT}`;
  pen.fillStyle = color;
  pen.textAlign = align;
  if (pen.measureText(text).width > room) {
    while (text.length > 1 && pen.measureText(text + "…").width > room) text = text.slice(0, -1);
    text += "…";
  }
  pen.fillText(text, x, y);
  return pen.measureText(text).width;
}

// A write is a square, a read a disc, a discard a cross: distinct without colour, and none hides another.
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
  layout.cells = [];  // x, y of each cell
  layout.lines = [];
  let device = -1;
  for (const line of movie.lines) {
    if (movie.devices.length > 1 && line.device !== device) {
      y += 18;
      layout.lines.push({ y: y - 5, label: movie.devices[line.device], heading: true });
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
