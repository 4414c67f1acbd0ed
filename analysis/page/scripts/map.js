// SPDX-License-Identifier: BSD-2-Clause
// The offset map: where on a device requests went, over time. From afar tiles, as dark as they have requests; a tile with
// several classes is dithered, so that none hides another. Near, where every request is in the page: single requests.

const MAP_CELL_PX = 2;
const MAP_PX = { large: 210, small: 110 };
const AREA_PX = 7;

// A map for each device and direction; the runs' first devices are side by side, then their second ones.
function mapPlots() {
  const most = Math.max(0, ...runs.map((run) => run.maps.length)), made = [];
  for (let i = 0; i < most; i++) {
    const maps = runs.map((run) => run.maps[i]), named = maps.find((map) => map !== undefined);
    const window_ = { from: 0, to: 1, ...offsetsOf(maps) };
    for (const op of ["write", "read"]) {
      if (!maps.some((map) => map && kindsOf(map, op).length)) continue;
      const plot = mapPlot(named, maps, op, window_);
      made.push({ plot, of: (run) => mapOf(run.maps[i], op) });
    }
  }
  return made;
}

// The class, after what is done if that is not the picture's op.
const kindText = (kind, op) => (kind.op === op || kind.op === kind.class ? kind.class : `${kind.op} ${kind.class}`);

// Discards and the like are drawn with the writes. Flushes have no offset, so no tile.
const kindsOf = (map, op) => map.kinds.map((kind, k) => ({ ...kind, k }))
  .filter((kind) => map.per_kind[kind.k] > 0 && (op === "read") === (kind.op === "read"));

const mapOf = (map, op) => (map === undefined ? undefined : kindsOf(map, op).length ? map : { why: `no ${op}s` });

// The offsets that a map can show: all tiles of all runs.
function offsetsOf(maps) {
  const there = maps.filter((map) => map !== undefined);
  const low = Math.min(...there.map((map) => map.from_byte ?? 0));
  const high = Math.max(...there.map((map) => (map.from_byte ?? 0) + map.offset_bins * map.bin_bytes));
  return { low, high, from: low, to: high };
}

function mapPlot(map, maps, op, offsets) {
  const plural = op === "read" ? "reads" : "writes";
  const kinds = new Map();  // of all runs, by name
  for (const one of maps) for (const kind of one ? kindsOf(one, op) : []) kinds.set(`${kind.op} ${kind.class}`, kind);
  const plot = {
    key: `map-${map.name}-${op}`,
    title: `Disk offset of ${map.name}: ${plural}${[...kinds.values()].some((kind) => !["read", "write"].includes(kind.op)) ? " and discards" : ""}`,
    mark: maps.find((one) => one?.mark)?.mark ?? "",
    points: true,
    hasNote: true,
    offsets,
    height: () => (op === "write" ? MAP_PX.large : MAP_PX.small),
    load: (run, own) => readMap(run, own, op),
    scale: (data, box, cell) => countMap(box, data, offsets, cell),
    draw: (pen, box, data, range, cell) => drawMap(pen, box, data, offsets, range.most, cell),
    read: (data, time, x, y, cell) => readMapAt(data, offsets, time, x, y, cell),
    legend: () => [...kinds.values()].map((kind) => ({ name: kindText(kind, op), light: rampOf(kind, "light")[1], dark: rampOf(kind, "dark")[1], area: true })),
    tools: () => [offsetTools(plot)],
  };
  return plot;
}

function offsetTools(plot) {
  const change = (factor) => () => zoomOffsets(plot, (plot.offsets.from + plot.offsets.to) / 2, factor);
  const tool = (text, label, act) => button(text, act, { "aria-label": `${label}: ${plot.title}`, title: label });
  return element("span", { class: "plot-tools" }, "offsets ", tool("+", "zoom in on offsets", change(0.5)), tool("−", "zoom out of offsets", change(2)),
    tool("▲", "higher offsets", () => panOffsets(plot, 0.25)), tool("▼", "lower offsets", () => panOffsets(plot, -0.25)),
    tool("fit", "the offsets used in view", () => fitOffsets(plot)), tool("all", "all offsets", () => setOffsets(plot, plot.offsets.low, plot.offsets.high)));
}

// Maps of one device share their offsets: both directions are drawn anew.
function setOffsets(plot, from, to) {
  const { low, high } = plot.offsets, length = Math.min(Math.max(to - from, 65536), high - low);
  plot.offsets.from = Math.max(low, Math.min(from, high - length));
  plot.offsets.to = plot.offsets.from + length;
  refresh(plots.filter((entry) => entry.plot.offsets === plot.offsets));
}

function zoomOffsets(plot, at, factor) {
  const { from, to } = plot.offsets;
  setOffsets(plot, at - (at - from) * factor, at + (to - at) * factor);
}

function panOffsets(plot, share) {
  const { from, to } = plot.offsets;
  setOffsets(plot, from + (to - from) * share, to + (to - from) * share);
}

function fitOffsets(plot) {
  let low = Infinity, high = -Infinity;
  for (const entry of plots.filter((one) => one.plot.offsets === plot.offsets))
    for (const { data } of entry.cells.filter((cell) => cell.data !== null)) {
      const { map, edges } = data, [first, last] = binsOfView(edges);
      for (const { cell } of data.kinds)
        for (let i = firstAtLeast(cell, first * map.offset_bins), to = firstAtLeast(cell, last * map.offset_bins); i < to; i++) {
          const row = cell[i] % map.offset_bins;
          low = Math.min(low, (map.from_byte ?? 0) + row * map.bin_bytes);
          high = Math.max(high, (map.from_byte ?? 0) + (row + 1) * map.bin_bytes);
        }
    }
  if (high > low) setOffsets(plot, low, high);
}

async function readMap(run, map, op) {
  const edges = await column(run, map.edges);
  const kinds = await Promise.all(kindsOf(map, op).map(async (kind) => ({
    ...kind, cell: await column(run, map.cell[kind.k]), count: await column(run, map.count[kind.k]),
  })));
  return { run, map, op, edges, kinds };
}

function binsOfView(edges) {
  const bins = edges.length - 1;
  return [Math.max(0, firstAtLeast(edges, view.start_ns + 1) - 1), Math.min(bins, firstAtLeast(edges, view.end_ns))];
}

const yOfByte = (box, offsets, byte) => box.top + box.height * (1 - (byte - offsets.from) / (offsets.to - offsets.from));

// Three colours from few to many.
function rampOf(kind, ground) {
  const given = Array.isArray(kind[ground]) ? kind[ground] : kind[ground].split(" ");
  if (given.length >= 3) return given;
  const mixed = (other, share) => `#${rgbOf(given[0]).map((from, k) => Math.round(from + (rgbOf(other)[k] - from) * share).toString(16).padStart(2, "0")).join("")}`;
  return ground === "dark" ? [mixed("#15181c", 0.45), given[0], mixed("#ffffff", 0.35)] : [mixed("#ffffff", 0.3), given[0], mixed("#000000", 0.35)];
}

// What the map shows of the view: single requests, or tiles.
function countMap(box, data, offsets, cell) {
  const points = pointsInView(box, data, offsets);
  let tiles = null;
  if (!points.drawn) {
    tiles = countTiles(box, data, offsets);
    if (points.rows !== null && (tiles === null || tiles.isFinest)) tiles = countRows(box, data, offsets, points.rows);
  }
  Object.assign(cell, { found: points, points: null, tiles, box });
  return { low: offsets.from, high: offsets.to, most: tiles?.most ?? 1 };
}

function drawMap(pen, box, data, offsets, most, cell) {
  const step = offsetStep(offsets.to - offsets.from, Math.max(2, Math.floor(box.height / 34)));
  for (let i = Math.ceil(offsets.from / step); i * step <= offsets.to; i++) {
    const y = sharp(yOfByte(box, offsets, i * step) - 0.5);
    penLine(pen, axis.left, y, axis.left + plotWidth(), y, paper().line);
    penText(pen, offsetText(i * step, step), axis.left - 6 - AREA_PX, y, { align: "right", size: 10.5, room: axis.left - 10 - AREA_PX });
  }
  drawAreas(pen, box, data.map, offsets);
  clipToPlot(pen, box);
  const { found, tiles } = cell;
  if (found.drawn) {
    drawPoints(pen, box, data, offsets, found, cell);
    cell.note.textContent = found.rows.length ? `${countText(found.rows.length)} single ${found.rows.length === 1 ? "request" : "requests"}` : "no request in view";
  } else if (tiles !== null) {
    drawTiles(pen, box, data, tiles, most, offsets);
    cell.note.textContent = `tiles of ${nsText(tiles.ns)} × ${bytesText(tiles.bytes)}, faint to strong: 1 to ${countText(most)} requests${found.why ? `; ${found.why}` : ""}`;
  }
}

// Offsets have decimal units with as many decimals as the step needs.
const offsetStep = (range, steps) => Math.max(1, niceStep(range, steps));
function offsetText(byte, step) {
  const [unit, factor] = LARGE.find(([, factor_]) => Math.max(byte, step) >= factor_) ?? ["B", 1];
  const places = Math.max(0, Math.min(9, Math.ceil(Math.log10(factor / step) - 1e-9)));
  return byte === 0 ? "0" : `${(byte / factor).toFixed(places)} ${unit}`;
}

const AREA_COLORS = { data: "#56B4E9", metadata: "#D55E00", journal: "#7c5cb8", mixed: "#b4b4b4" };

function drawAreas(pen, box, map, offsets) {
  for (const area of map.areas) {
    const top = Math.max(box.top, yOfByte(box, offsets, area.to_byte)), low = Math.min(box.top + box.height, yOfByte(box, offsets, area.from_byte));
    if (low <= top || !AREA_COLORS[area.kind]) continue;
    pen.fillStyle = AREA_COLORS[area.kind];
    pen.fillRect(axis.left - AREA_PX, top, AREA_PX - 2, Math.max(1, low - top));
  }
}

// Requests by tile: a whole number of bins in both directions, at least MAP_CELL_PX wide and tall.
function countTiles(box, data, offsets) {
  const { map, edges, kinds } = data, [first, last] = binsOfView(edges), base = map.from_byte ?? 0;
  if (last <= first) return null;
  const joinedX = Math.max(1, Math.ceil(((last - first) * MAP_CELL_PX) / plotWidth()));
  const visible = (offsets.to - offsets.from) / map.bin_bytes, joinedY = Math.max(1, Math.ceil((visible * MAP_CELL_PX) / box.height));
  const left = Math.floor(first / joinedX), across = Math.ceil(last / joinedX) - left;
  const low = Math.max(0, Math.floor((offsets.from - base) / map.bin_bytes / joinedY));
  const up = Math.min(Math.ceil(map.offset_bins / joinedY), Math.ceil((offsets.to - base) / map.bin_bytes / joinedY)) - low;
  if (up <= 0) return null;
  const counts = kinds.map(() => new Float64Array(across * up));
  const rows = new Int32Array(map.offset_bins);
  for (let i = 0; i < rows.length; i++) rows[i] = Math.floor(i / joinedY) - low;
  kinds.forEach(({ cell, count }, k) => {
    const sums = counts[k], to = firstAtLeast(cell, last * map.offset_bins);
    for (let i = firstAtLeast(cell, first * map.offset_bins); i < to; i++) {
      const time = Math.floor(cell[i] / map.offset_bins), row = rows[cell[i] - time * map.offset_bins];
      if (row >= 0 && row < up) sums[(Math.floor(time / joinedX) - left) * up + row] += count[i];
    }
  });
  let most = 1;
  for (const sums of counts) for (let i = 0; i < sums.length; i++) if (sums[i] > most) most = sums[i];
  const times = Float64Array.from({ length: across + 1 }, (_, i) => edges[Math.min((left + i) * joinedX, edges.length - 1)]);
  const from = Float64Array.from({ length: up + 1 }, (_, i) => base + Math.min((low + i) * joinedY, map.offset_bins) * map.bin_bytes);
  return { counts, across, up, times, from, most, ns: times[1] - times[0], bytes: joinedY * map.bin_bytes, isFinest: joinedX === 1 || joinedY === 1 };
}

function drawTiles(pen, box, data, { counts, across, up, times, from }, most, offsets) {
  const ground = theme.printing ? "light" : theme.name, inks = data.kinds.map((kind) => inksOf(rampOf(kind, ground).map(rgbOf)));
  const here = new Uint32Array(counts.length);  // the inks of a tile
  drawPixels(pen, box, (words, width, height, scale) => {
    const x = Array.from(times, (ns) => Math.round((xOfTime(ns) - axis.left) * scale));
    const y = Array.from(from, (byte) => Math.round((yOfByte(box, offsets, byte) - box.top) * scale));
    const dither = Math.max(1, Math.round(scale));
    for (let c = 0; c < across; c++)
      for (let r = 0; r < up; r++) {
        let n = 0;
        for (let k = 0; k < counts.length; k++) {
          const count = counts[k][c * up + r];
          if (count) here[n++] = inks[k][Math.round(shareOf(count, most) * INKS)];
        }
        if (n === 0) continue;
        const right = Math.min(width, Math.max(x[c + 1], x[c] + 1)), low = Math.min(height, Math.max(y[r], y[r + 1] + 1));
        for (let py = Math.max(0, y[r + 1]); py < low; py++)
          for (let px = Math.max(0, x[c]); px < right; px++)
            words[py * width + px] = n === 1 ? here[0] : here[(Math.floor(px / dither) + Math.floor(py / dither)) % n];
      }
  });
}

function readMapAt(data, offsets, time, x, y, cell) {
  const byte = offsets.from + (offsets.to - offsets.from) * (1 - (y - cell.box.top) / cell.box.height);
  const area = data.map.areas.find((one) => byte >= one.from_byte && byte < one.to_byte);
  const notes = area ? [`in ${area.name}`] : [];
  if (cell.points) {
    const near = nearestPoint(cell.points, x, y);
    return near === null ? { head: `offset ${bytesText(Math.max(0, byte))}`, rows: [], notes } : pointText(data, near);
  }
  if (!cell.tiles) return null;
  const { counts, up, times, from } = cell.tiles, c = columnAt(times, time), r = columnAt(from, byte);
  if (c < 0 || r < 0) return null;
  const ground = theme.printing ? "light" : theme.name;
  const rows = data.kinds.map((kind, k) => ({ color: rampOf(kind, ground)[1], name: `${kind.op} ${kind.class}`, count: counts[k][c * up + r] }))
    .filter((row) => row.count).map((row) => ({ ...row, value: `${countText(row.count)} ${row.count === 1 ? "request" : "requests"}` }));
  return { head: `offset ${bytesText(from[r])} to ${bytesText(from[r + 1])}`, rows, notes: [`in ${nsText(times[c + 1] - times[c])}`, ...notes] };
}
