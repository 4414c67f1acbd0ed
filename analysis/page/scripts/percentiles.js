// SPDX-License-Identifier: BSD-2-Clause
// Percentiles of the time from queued to completed (Q2C), by operation and class: of the single requests where the page
// holds all of the window, else of the latency buckets: then a percentile is known to lie within one, an interval.

const PERCENTS = [50, 90, 99, 99.9];
const MOST_SORTED = 300000;  // single requests of a window: to sort more takes too long beside a moving pointer

// One table of all runs that have a cube of this key: "latency" of requests, "bios_latency" of bios to volumes.
async function makePercentiles(place, key) {
  const spec = runs.map((run) => specOf(run, key)).find(Boolean);
  if (spec === undefined) return;
  const section = sectionOf(place, key, { ...spec, title: `${spec.title}: percentiles` });
  const cubes = await Promise.all(runs.map((run) => readable(run, key)));
  if (!cubes.some(Boolean)) return;
  const state_ = { text: element("p", { class: "live-window" }), body: element("tbody"), rows: runs.map(() => null) };
  const heads = ["<op", "<class", ...(runs.length > 1 ? ["<run"] : []), "requests", ...PERCENTS.map((percent) => `p${percent}`), "longest"];
  section.append(state_.text, element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Percentiles" }, element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col", class: head.startsWith("<") ? "left" : null }, head.replace("<", ""))))),
    state_.body)));
  appendDefinition(section, cubes.find(Boolean));
  const block = follow(section, (now) => drawPercentiles(state_, cubes, now), true);
  if (key === "latency") runs.forEach(async (run, index) => {  // the single requests are no bios
    state_.rows[index] = await rowsOf(run);
    if (state_.rows[index] !== null) invalidate([block]);
  });
}

function drawPercentiles(state_, cubes, now) {
  const texts = [], tags = [], lines = [];
  cubes.forEach((cube, run) => {
    if (cube === null) return;
    const rows = state_.rows[run], exact = isComplete(rows, now) && rowRange(rows, now).reduce((from, to) => to - from) <= MOST_SORTED;
    const sum = exact ? null : cubeSum(cube, now.start_ns, now.end_ns);
    const found = exact ? exactPercentiles(rows, now) : sum === null ? [] : bucketPercentiles(cube, sum);
    texts.push(exact ? `${windowText(now)}: exact, of every single request.`
      : `${binsText(cube, sum)} A percentile lies within the interval that is shown: ${isComplete(rows, now) ? `of windows of ${countText(MOST_SORTED)} requests at most it is exact`
        : "the page does not hold every request of this window"}.`);
    tags.push(runs[run].tag);
    for (const one of found) lines.push({ ...one, run });
  });
  lines.sort((a, b) => `${a.op} ${a.class_}`.localeCompare(`${b.op} ${b.class_}`, "en") || a.run - b.run);
  state_.text.textContent = sayOnce(texts, tags);
  state_.body.replaceChildren(...lines.filter((line) => matchesSearch(`${line.op} ${line.class_}`)).map((line) => element("tr", { "data-op": line.op, "data-class": line.class_ },
    nameCell(line.op), nameCell(line.class_),
    ...(runs.length > 1 ? [nameCell(runs[line.run].tag)] : []),
    figureCell(line.count, "count"), ...line.figures.map(intervalCell))));
}

// A figure [low, high] in ns: one number where both are the same.
function intervalCell(figure) {
  if (figure === null) return element("td", {}, "-");
  const [low, high] = figure;
  if (low === high) return figureCell(low, "ns");
  return element("td", { "data-low": String(low), "data-high": String(high), title: `${exactText(low)} ns to ${exactText(high)} ns` }, `${nsText(low)} - ${nsText(high)}`);
}

// By nearest rank: the least value that at least `percent` of the values do not exceed.
const rankOf = (percent, count) => Math.max(Math.ceil(count * percent / 100 - 1e-9), 1) - 1;

function exactPercentiles(rows, now) {
  const labels = rows.kinds.labels, [from, to] = rowRange(rows, now), groups = new Map();
  const [op, class_] = ["op", "class"].map((name) => labels.find((label) => label.name === name));
  const nameOfKind = Array.from({ length: rows.kinds.keys }, (_, kind) => JSON.stringify([op.words[op.codes[kind]], class_.words[class_.codes[kind]]]));
  const groupOfKind = nameOfKind.map((name) => {
    if (!groups.has(name)) groups.set(name, { times: [], count: 0 });
    return groups.get(name);
  });
  for (let i = from; i < to; i++) if (isTimed(rows, i)) groupOfKind[rows.kind[i]].count++;
  for (const group of groups.values()) Object.assign(group, { times: new Float64Array(group.count), count: 0 });
  for (let i = from; i < to; i++) {
    if (!isTimed(rows, i)) continue;
    const group = groupOfKind[rows.kind[i]];
    group.times[group.count++] = q2cOf(rows, i);
  }
  return [...groups].filter(([, group]) => group.count > 0).map(([name, { times, count }]) => {
    const sorted = times.subarray(0, count).sort(), [op_, class__] = JSON.parse(name);
    return { op: op_, class_: class__, count, figures: [...PERCENTS.map((percent) => sorted[rankOf(percent, count)]), sorted[count - 1]].map((ns) => [ns, ns]) };
  });
}

function bucketPercentiles(cube, sum) {
  const label = (name) => cube.labels.find((one) => one.name === name);
  const op = label("op"), class_ = label("class"), bucket = label("bucket"), counts = sum.sums[cube.sort], groups = new Map();
  for (let key = 0; key < cube.keys; key++) {
    if (counts[key] === 0) continue;
    const name = JSON.stringify([op.words[op.codes[key]], class_.words[class_.codes[key]]]);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push({ bounds: bucketBounds(bucket, bucket.codes[key]), count: counts[key] });
  }
  return [...groups].map(([name, buckets]) => {
    buckets.sort((a, b) => a.bounds[0] - b.bounds[0]);
    const count = buckets.reduce((all, one) => all + one.count, 0), [op_, class__] = JSON.parse(name);
    const at = (rank) => {
      let before = 0;
      for (const one of buckets) if ((before += one.count) > rank) return one.bounds;
      return null;
    };
    return { op: op_, class_: class__, count, figures: [...PERCENTS.map((percent) => at(rankOf(percent, count))), buckets.at(-1).bounds] };
  });
}

// The least and the greatest time, in ns, of a bucket: its word is "1000-1019".
const bucketBounds = (label, code) => label.words[code].split("-").map(Number);
