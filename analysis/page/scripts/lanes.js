// SPDX-License-Identifier: BSD-2-Clause
// Threads as lanes: of each column of pixels the shares of a thread's states, stacked, so that no state hides another.

const LANE_PX = 15, LANE_GAP_PX = 3, LANE_CELL_PX = 3;

function lanesPlot(panel) {
  const states = Object.entries(panel.lanes?.colors ?? {});
  const look = ([name, [light, dark]]) => ({ name, light, dark, hatch: panel.lanes.hatches?.[name], area: true });
  const looks = states.map(look);
  return {
    key: panel.key,
    hasNote: true,
    height: (cells) => Math.max(2, ...cells.map((cell) => cell.data?.lanes.length ?? 0)) * LANE_PX,
    load: (run, own) => readLanes(run, own.lanes, looks),
    draw: (pen, box, data, range, cell) => drawLanes(pen, box, data, looks, cell),
    read: (data, time, x, y, cell) => readLaneAt(data, looks, time, y, cell),
    legend: () => looks,
  };
}

const LEAST_BUSY = 0.001;  // share of the run's time

// The lanes: those that come first (the workload's), then the others that do something; those with most time that is not
// idle above. Their order is that of the whole run: they stay where they are while the view moves.
async function readLanes(run, lanes, looks) {
  const cube = await cubeOf(run, lanes.cube);
  if (cube === null) throw new Error("its figures are not in the page");
  const label = cube.labels[lanes.lane_label], state = cube.labels[lanes.state_label], time = cube.columns[lanes.value];
  const shown = Int32Array.from(state.codes, (code) => looks.findIndex((look) => look.name === state.words[code]));
  const isBusy = Uint8Array.from(state.codes, (code, key) => (shown[key] >= 0 && !lanes.idle.includes(state.words[code]) ? 1 : 0));
  const busy = new Float64Array(label.words.length), isFirst = new Uint8Array(label.words.length);
  for (let i = 0; i < time.length; i++) busy[label.codes[cube.keyOf[i]]] += time[i] * isBusy[cube.keyOf[i]];
  const first = lanes.first_label === null ? null : cube.labels[lanes.first_label];
  if (first !== null) label.codes.forEach((lane, key) => { if (first.words[first.codes[key]] === lanes.first_word) isFirst[lane] = 1; });
  const order = [...new Set(label.codes)].sort((a, b) => isFirst[b] - isFirst[a] || busy[b] - busy[a]);
  const kept = order.filter((lane) => isFirst[lane] || busy[lane] > LEAST_BUSY * (run.end_ns - run.start_ns)).slice(0, lanes.most);
  const place = new Map(kept.map((lane, i) => [lane, i]));
  return {
    cube,
    time,
    lanes: kept.map((lane) => label.words[lane]),
    more: order.length - kept.length,
    laneOf: Int32Array.from(label.codes, (lane) => place.get(lane) ?? -1),
    stateOf: shown,
  };
}

function drawLanes(pen, box, data, looks, cell) {
  const { cube, time, lanes, laneOf, stateOf } = data;
  const columns_ = binColumns(cube.edges, LANE_CELL_PX), n = Math.max(0, columns_.length - 1), states = looks.length;
  const sums = new Float64Array(lanes.length * n * states);
  const to = n ? firstAtLeast(cube.bin, columns_[n]) : 0;
  for (let i = n ? firstAtLeast(cube.bin, columns_[0]) : 0, c = 0; i < to; i++) {
    while (cube.bin[i] >= columns_[c + 1]) c++;
    const key = cube.keyOf[i], lane = laneOf[key], state = stateOf[key];
    if (lane >= 0 && state >= 0) sums[(lane * n + c) * states + state] += time[i];
  }
  const at = Float64Array.from(columns_, (edge) => cube.edges[edge]);
  Object.assign(cell, { sums, at, box });
  lanes.forEach((name, lane) => {
    const top = box.top + lane * LANE_PX;
    penText(pen, name, axis.left - 6, top + (LANE_PX - LANE_GAP_PX) / 2, { align: "right", size: 10.5, room: axis.left - 8 });
    penLine(pen, axis.left, sharp(top + LANE_PX - LANE_GAP_PX), axis.left + plotWidth(), sharp(top + LANE_PX - LANE_GAP_PX), paper().line);
  });
  clipToPlot(pen, box);
  drawPixels(pen, box, (words, width, height, scale) => paintLanes(words, width, scale, { sums, at, lanes: lanes.length, looks }));
  if (data.more) cell.note.textContent = `${countText(data.more)} more threads, which do less, are in the table`;
}

// From the bottom of a lane each state as tall as its share, at least a pixel if it is a hundredth.
function paintLanes(words, width, scale, { sums, at, lanes, looks }) {
  const n = at.length - 1, states = looks.length, full = Math.round((LANE_PX - LANE_GAP_PX) * scale), dot = Math.max(1, Math.round(scale));
  const inks = looks.map((look) => [inkWord(rgbOf(colorOf(look))), inkWord(hatchInk(rgbOf(colorOf(look))))]);
  const x = Array.from(at, (ns) => Math.round((xOfTime(ns) - axis.left) * scale));
  for (let lane = 0; lane < lanes; lane++)
    for (let c = 0; c < n; c++) {
      const low = Math.round(lane * LANE_PX * scale) + full, length = at[c + 1] - at[c], left = Math.max(0, x[c]), right = Math.min(width, Math.max(x[c + 1], x[c] + 1));
      let before = 0, done = 0;
      for (let state = 0; state < states; state++) {
        const ns = sums[(lane * n + c) * states + state];
        if (!ns) continue;
        before += ns;
        const end = Math.min(full, Math.max(Math.round((before / length) * full), done + (ns > length / 100 ? 1 : 0)));
        const [ink, over] = inks[state], hatch = looks[state].hatch;
        for (; done < end; done++) {
          const row = (low - done - 1) * width;
          words.fill(ink, row + left, row + right);
          if (hatch) for (let px = left; px < right; px++) if (isHatched(hatch, Math.floor(px / dot), Math.floor(done / dot))) words[row + px] = over;
        }
      }
    }
}

function readLaneAt(data, looks, time, y, cell) {
  const c = cell.at ? columnAt(cell.at, time) : -1, lane = Math.floor((y - cell.box.top) / LANE_PX);
  if (c < 0 || lane < 0 || lane >= data.lanes.length) return null;
  const n = cell.at.length - 1, first = (lane * n + c) * looks.length, length = cell.at[c + 1] - cell.at[c];
  const rows = looks.map((look, state) => ({ color: colorOf(look), name: look.name, ns: cell.sums[first + state] }))
    .filter((row) => row.ns > 0).map((row) => ({ ...row, value: `${nsText(row.ns)} (${figures((row.ns / length) * 100)} %)` }));
  return { head: data.lanes[lane], rows, notes: [rows.length ? `over ${nsText(length)}` : `asleep by own will, or not there, for ${nsText(length)}`] };
}
