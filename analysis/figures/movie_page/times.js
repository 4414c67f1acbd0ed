// SPDX-License-Identifier: BSD-2-Clause
// Below the grid: phases, throughput, seeks and queue depth over time, with the cursor. draw() draws the whole page.

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
  drawPanel(layout.throughput, "Device throughput, MB/s (10⁶ bytes)", [
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
  write(movie.time_axis, LEFT + gridWidth / 2, layout.axis + 31, { size: 11, align: "center" });
  // the cursor is as wide as the frame
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
