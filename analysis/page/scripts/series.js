// SPDX-License-Identifier: BSD-2-Clause
// The values of a panel's series at any zoom: sums of a cube's bins by prefix sums, and samples by pixel.

// The series of a panel as numbers: { edges, over, under } of cubes, { t, v } of samples, null where the cube is missing.
async function readSeries(run, panel) {
  const made = panel.series.map(() => null);
  const cubes = [...new Set(panel.series.filter((one) => one.source.cube).map((one) => one.source.cube))];
  for (const key of cubes) {
    const cube = await cubeOf(run, key);
    if (cube === null) continue;
    const wants = [];  // { value, keys } that are summed by bin
    panel.series.forEach((one, i) => {
      const source = one.source;
      if (source.cube !== key) return;
      wants.push({ value: source.value, keys: source.keys, put: (sums) => Object.assign(made[i], { over: sums }) });
      if (source.per !== null) wants.push({ value: source.per, keys: source.keys, put: (sums) => Object.assign(made[i], { under: sums }) });
      made[i] = { edges: cube.edges, over: null, under: null, how: cube.values[source.value].how, scale: source.scale };
    });
    sumByBin(cube, wants);
  }
  await Promise.all(panel.series.map(async (one, i) => {
    if (one.source.cube) return;
    const [t, v] = await Promise.all([column(run, one.source.t), column(run, one.source.v)]);
    made[i] = { t, v, step: one.source.step, scale: one.source.scale, end_ns: run.end_ns };
  }));
  return made;
}

// For each want the sum of its keys' entries up to each edge; of a value that is a maximum, the largest of each bin.
function sumByBin(cube, wants) {
  const bins = cube.edges.length - 1;
  for (const value of new Set(wants.map((want) => want.value))) {
    const some = wants.filter((want) => want.value === value), isMax = cube.values[value].how === "max";
    const ofKey = Array.from({ length: cube.keys }, () => []);
    some.forEach((want) => {
      want.sums = new Float64Array(bins + 1);
      for (const key of want.keys ?? ofKey.keys()) if (key < cube.keys) ofKey[key].push(want.sums);
    });
    const column_ = cube.columns[value];
    for (let i = 0; i < column_.length; i++)
      for (const sums of ofKey[cube.keyOf[i]]) {
        const bin = cube.bin[i];
        if (isMax) sums[bin] = Math.max(sums[bin], column_[i]);
        else sums[bin + 1] += column_[i];
      }
    for (const want of some) {
      if (!isMax) for (let i = 0; i < bins; i++) want.sums[i + 1] += want.sums[i];
      want.put(want.sums);
    }
  }
}

// The value of a series over bins [from, to) of its cube; NaN: it has none there.
function overBins(series, from, to) {
  const { over, under, edges, how, scale } = series;
  if (how === "max") {
    let most = 0;
    for (let i = from; i < to; i++) most = Math.max(most, over[i]);
    return most * scale;
  }
  const sum = over[to] - over[from];
  if (under !== null) return under[to] > under[from] ? (sum / (under[to] - under[from])) * scale : NaN;
  return (sum / (edges[to] - edges[from])) * 1e9 * scale;
}

// What is drawn of a series in the view: columns between ascending times, and in each column its value, and the lowest
// and highest sample where samples are drawn. at: the edges, in ns; null: choose them by the series' own bins.
function inView(series, at = null) {
  if (series.t) return samplesInView(series, at ?? pixelEdges());
  const chosen = at === null ? binColumns(series.edges, 1) : Int32Array.from(at, (ns) => Math.min(firstAtLeast(series.edges, ns), series.edges.length - 1));
  const columns_ = Math.max(0, chosen.length - 1), values = new Float64Array(columns_);
  for (let i = 0; i < columns_; i++) values[i] = chosen[i] < chosen[i + 1] ? overBins(series, chosen[i], chosen[i + 1]) : NaN;
  return { at: at ?? Float64Array.from(chosen, (edge) => series.edges[edge]), values, low: values, high: values };
}

const pixelEdges = () => Float64Array.from({ length: Math.floor(plotWidth()) + 1 }, (_, i) => view.start_ns + (i / Math.floor(plotWidth())) * viewLength());

// The value of a column: the last sample before its end.
function samplesInView({ t, v, scale, step, end_ns }, at) {
  const n = at.length - 1;
  const values = new Float64Array(n).fill(NaN), low = new Float64Array(n).fill(NaN), high = new Float64Array(n).fill(NaN);
  let next = firstAtLeast(t, at[0]);
  for (let i = 0; i < n; i++) {
    const before = next - 1;
    const held = step && before >= 0 ? v[before] : NaN;
    let least = held, most = held;
    while (next < t.length && t[next] < at[i + 1]) {
      least = least <= v[next] ? least : v[next];
      most = most >= v[next] ? most : v[next];
      next++;
    }
    if (next > before + 1) values[i] = v[next - 1] * scale;
    else if (step) values[i] = at[i] < end_ns ? held * scale : NaN;
    else if (before >= 0 && next < t.length) values[i] = (v[before] + ((v[next] - v[before]) * (at[i + 1] - t[before])) / (t[next] - t[before])) * scale;
    if (Number.isNaN(values[i])) continue;
    low[i] = Number.isNaN(least) ? values[i] : least * scale;
    high[i] = Number.isNaN(most) ? values[i] : most * scale;
  }
  return { at, values, low, high };
}
