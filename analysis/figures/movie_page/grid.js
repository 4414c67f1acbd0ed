// SPDX-License-Identifier: BSD-2-Clause
// The head with its legend, the grid of the disk, and the column of numbers beside it.

function drawHead() {
  write(movie.title, 10, 24, { size: 17, bold: true, room: width - 230 });
  write(movie.subtitle, 10, 44, { size: 11.5, color: QUIET, room: width - 230 });
  movie.banners.forEach((banner, i) => write("! " + banner, 10, 62 + 16 * i, { bold: true, color: ALARM, room: width - 20 }));
  const f = state.frame, right = width - 10;
  write(`${(startOf(f)).toFixed(movie.decimals)} s`, right, 26, { size: 20, bold: true, align: "right" });
  write(`frame ${count(f + 1)} of ${count(movie.frames)}, ${movie.frame_length} each`, right, 44, { size: 11.5, color: QUIET, align: "right" });
  // legend, row 1: classes, operations, bytes; row 2: age of a cell's last request, outlines of areas
  let x = LEFT, y = layout.legend + 10;
  const put = (label, draw) => {
    draw(x, y - 9);
    x += 15;
    x += write(label, x, y, { size: 11 }) + 13;
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
  put(`light to dark: ${bytesWithUnit(frames.low)} to ${bytesWithUnit(frames.high)} per cell and frame`, () => { x -= 15; });
  x = LEFT;
  y += 18;
  put("in this frame", (a, b) => shape("write", a, b, 11, 11, "#c8c8c8", INK));
  put(`fading: in the last ${movie.fade_length}`, (a, b) => [0.8, 0.5, 0.2].forEach((alpha, i) => { pen.fillStyle = `rgba(90,90,90,${alpha})`; pen.fillRect(a + i * 4, b, 4, 11); }));
  put("earlier", (a, b) => shape("write", a, b, 11, 11, BEFORE, LINE));
  put("not yet", (a, b) => shape("write", a, b, 11, 11, "#fff", LINE));
  movie.outlined.forEach((kind, i) => {
    if (outlined(kind.kind).size)
      put(`${kind.kind} area of the file system`, (a, b) => {
        borderPen(kind);
        pen.strokeRect(a + i, b + i, 11 - 2 * i, 11 - 2 * i);
        pen.setLineDash([]);
      });
  });
}

// What each cell shows now, by operation: the mixed inks of its classes, newer requests weighing more.
function glowing() {
  const glow = new Map();
  for (let age = Math.min(movie.fade_frames - 1, state.frame); age >= 0; age--) {
    const frame = state.frame - age, weight = 1 - age / movie.fade_frames;
    for (let j = frames.first[frame]; j < frames.first[frame + 1]; j++) {
      const key = movie.ops.indexOf(movie.kinds[frames.kind[j]].op) * movie.cells + frames.cell[j];
      let cell = glow.get(key);
      if (!cell || (age === 0 && !cell.now)) glow.set(key, (cell = { sum: [0, 0, 0], weight: 0, strongest: 0, now: age === 0 }));
      ink(frames.kind[j], frames.bytes[j]).forEach((value, k) => (cell.sum[k] += value * weight));
      cell.weight += weight;
      cell.strongest = Math.max(cell.strongest, weight);
    }
  }
  return glow;
}

function drawGrid() {
  for (const line of layout.lines) {
    if (line.heading) {
      write(line.label, LEFT, line.y, { size: 11, bold: true, room: gridWidth });
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
  for (const [key, cell] of glow) {
    const [x, y] = layout.cells[key % movie.cells], op = movie.ops[Math.floor(key / movie.cells)];
    const color = css(cell.sum.map((value) => value / cell.weight), cell.now ? 1 : 0.9 * cell.strongest);
    shape(op, x + 1, y + 1, CELL_W - 1, cellHeight - 1, color, cell.now && op !== "discard" ? INK : null);
  }
  movie.outlined.forEach((kind, i) => drawOutlines(kind, i * 1.5));
}

// The cells that overlap the file system's areas of a kind.
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

// The border of these cells: the sides whose neighbour is not one of them. Insets keep the kinds' borders apart.
function drawOutlines(kind, inset) {
  const inside = outlined(kind.kind);
  borderPen(kind);
  pen.beginPath();
  const side = (x1, y1, x2, y2) => {
    pen.moveTo(x1, y1);
    pen.lineTo(x2, y2);
  };
  // true if the cell is inside and is drawn at this y: the row above or below may belong to another device
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

// The numbers at the right of the grid: this frame, the whole run, and the cell under the pointer.
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
    write(bytesWithUnit(now[k][1]), right, y, { size: 11, align: "right", color: now[k][0] ? INK : QUIET });
    y += 16;
  });
  row("without an offset (flush)", count(movie.placeless[f]));
  row("seeks", count(movie.seeks[f]));
  row("queue depth, mean", figures(movie.depth[f]));
  const phases = movie.phases.filter((phase) => phase.start_s <= startOf(f) + lengthOf(f) / 2 && startOf(f) + lengthOf(f) / 2 < phase.end_s);
  if (movie.phases.length) row("phase", phases.length ? phases[phases.length - 1].name : "none");
  y += 8;
  row("in the whole run" + (movie.mark && " " + movie.mark), "", { bold: true });
  row("requests", count(movie.rows));
  row("read and written", bytesWithUnit(frames.kinds.reduce((sum, kind, k) => sum + (movie.kinds[k].op === "discard" ? 0 : kind.bytes), 0)));
  row("seeks", count(movie.seeks.reduce((a, b) => a + b, 0)));
  y += 8;
  const cell = pointedCell();
  if (cell < 0) {
    write("point at a cell to see its numbers", x, y, { size: 9.5, color: QUIET, room: SIDE });
    return;
  }
  const here = frames.cells[cell], line = movie.lines.filter((row) => !row.gap)[Math.floor(cell / movie.columns)];
  let requests = 0, bytes = 0;
  for (let j = frames.first[f]; j < frames.first[f + 1]; j++)
    if (frames.cell[j] === cell) {
      requests += frames.requests[j];
      bytes += frames.bytes[j];
    }
  const offset = line.offset + (cell % movie.columns) * movie.cell_bytes;
  row(`cell at ${bytesWithUnit(offset)}`, "", { bold: true });
  row("in this frame", `${count(requests)}, ${bytesWithUnit(bytes)}`);
  row("in the whole run", `${count(here.requests)}, ${bytesWithUnit(here.bytes)}`);
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
