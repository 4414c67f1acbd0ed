// SPDX-License-Identifier: BSD-2-Clause
// The single requests of the window, the slowest first, where the page holds them; and which windows it holds in full.

const REQUESTS_SHOWN = 200;
const REQUESTS_FIRST = 12;
const SECTOR_BYTES = 512;
const IS_SEEK = 1, IS_TIMED = 2;  // of a row's flags

const rowsRead = new WeakMap();

// Promise of a run's single requests; null: the page holds none. They are read when all else was drawn once: they are most
// of the page's bytes.
function rowsOf(run) {
  if (!run.rows) return Promise.resolve(null);
  if (!rowsRead.has(run)) rowsRead.set(run, readRows(run));
  return rowsRead.get(run);
}

async function readRows(run) {
  await firstDrawn;
  const read = {};
  for (const name of ["t_us", "kind", "dev", "sector", "bytes", "q2d_ns", "d2c_ns", "file", "files", "thread", "flags"]) {
    read[name] = await column(run, run.rows[name]);
    await new Promise((resolve) => setTimeout(resolve, 0));  // a key or the pointer is answered between two columns
  }
  return { ...run.rows, run, kinds: await readable(run, "requests"), ...read };
}

// Whether every request of the window is among the rows.
const isComplete = (rows, now) => rows !== null && rows.kinds !== null &&
  rows.complete.some(([from, to]) => from <= Math.max(now.start_ns, rows.run.start_ns) && Math.min(now.end_ns, rows.run.end_ns) <= to);

// Indexes [from, to) of the rows issued in the window. A window's edges are whole microseconds, as t_us is.
const rowRange = (rows, now) => [firstAtLeast(rows.t_us, now.start_ns / 1000), firstAtLeast(rows.t_us, now.end_ns / 1000)];

const isTimed = (rows, i) => (rows.flags[i] & IS_TIMED) !== 0;

// From queued to completed, ns; -1: no completion was seen, or the times are not in order.
const q2cOf = (rows, i) => (isTimed(rows, i) ? rows.q2d_ns[i] + rows.d2c_ns[i] : -1);

// The sums of the cube "requests" over the window itself, as cubeSum() makes them of bins; null: not all rows are here.
function sumRows(rows, now) {
  if (!isComplete(rows, now)) return null;
  const [from, to] = rowRange(rows, now), keys = rows.kinds.keys;
  const of = Object.fromEntries(["requests", "bytes", "seeks", "timed", "Q2C", "Q2D", "D2C"].map((name) => [name, new Float64Array(keys)]));
  for (let i = from; i < to; i++) {
    const kind = rows.kind[i];
    of.requests[kind]++;
    of.bytes[kind] += rows.bytes[i];
    of.seeks[kind] += rows.flags[i] & IS_SEEK;
    if (!isTimed(rows, i)) continue;
    of.timed[kind]++;
    of.Q2D[kind] += rows.q2d_ns[i];
    of.D2C[kind] += rows.d2c_ns[i];
    of.Q2C[kind] += rows.q2d_ns[i] + rows.d2c_ns[i];
  }
  const sums = rows.kinds.values.map((value) => of[value.name]);
  if (sums.includes(undefined)) return null;
  return { start_ns: now.start_ns, end_ns: now.end_ns, exact: true, sums, all: sums.map((sum) => sum.reduce((a, b) => a + b, 0)) };
}

async function makeRequests(place) {
  if (!runs.some((run) => run.rows)) return;
  const section = element("section", { class: "live-block", id: "live-single", "aria-label": "Single requests" }, element("h3", {}, "Single requests of the window, slowest first"));
  place.append(section);
  const all = await Promise.all(runs.map(rowsOf));
  const table = { all: false, text: element("p", { class: "live-window" }), body: element("tbody") };
  table.more = button("", () => { table.all = !table.all; invalidate([table.block]); }, { class: "more" });
  const kinds = all.find(Boolean).kinds, labels = (kinds?.labels ?? []).map((label) => label.name);
  table.hasQueue = kinds === null || kinds.values.some((value) => value.name === "Q2C");
  table.hasDisks = all.some((rows) => rows !== null && rows.devs.length > 1);
  const heads = ["issued", ...(runs.length > 1 ? ["<run"] : []), ...labels.map((name) => `<${name}`), "bytes", ...(table.hasDisks ? ["<disk"] : []), "offset",
    ...(table.hasQueue ? ["Q2D", "D2C", "Q2C"] : ["D2C"]), "<file", "<thread"];
  section.append(table.text, element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Single requests" }, element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col", class: head.startsWith("<") ? "left" : null }, head.replace("<", ""))))),
    table.body)), table.more);
  table.block = follow(section, (now) => drawRequests(table, all, now), true);
}

function drawRequests(table, all, now) {
  const slowest = makeSlowest(REQUESTS_SHOWN);
  let count = 0;
  const texts = all.map((rows) => {
    if (rows === null) return "";
    const [from, to] = rowRange(rows, now), test = rowTests(rows);
    for (let i = from; i < to; i++) {
      if (test !== null && !test(i)) continue;
      count++;
      const q2c = q2cOf(rows, i);
      if (q2c > slowest.least) slowest.add({ rows, i, q2c });
    }
    return heldText(rows, now, to - from);
  });
  const listed = slowest.list();
  table.text.textContent = sayOnce(texts, runs.map((run) => run.tag)) + (count > REQUESTS_SHOWN ? ` The slowest ${REQUESTS_SHOWN} are listed.` : "");
  table.body.replaceChildren(...listed.slice(0, table.all ? REQUESTS_SHOWN : REQUESTS_FIRST).map((one) => requestRow(table, one)));
  table.more.hidden = listed.length <= REQUESTS_FIRST;
  table.more.textContent = table.all ? `show the first ${REQUESTS_FIRST}` : `show all ${countText(listed.length)}`;
  tellFound("single requests", search.text === "" ? 0 : count);
}

// Collects the `most` requests with the longest Q2C; of equal ones those that were added first. least: no longer one is
// needed: it is raised now and then, so that most requests are passed over.
function makeSlowest(most) {
  let kept = [];
  const order = (a, b) => b.q2c - a.q2c;  // sort() keeps the order of equal ones
  const made = {
    least: -Infinity,
    add(one) {
      kept.push(one);
      if (kept.length < 4 * most) return;
      kept = kept.sort(order).slice(0, most);
      made.least = kept.at(-1).q2c;
    },
    list: () => kept.sort(order).slice(0, most),
  };
  return made;
}

function heldText(rows, now, count) {
  if (isComplete(rows, now)) return `All ${countText(count)} requests of the window are in this page.`;
  return `The window has requests that are not in this page, which holds ${countText(rows.count)} of ${countText(rows.recorded)}:` +
    ` ${countText(count)} of this window, among them the slowest of each kind.`;
}

// Says whether a row's file, thread or kind matches the search; null: nothing is searched for.
function rowTests(rows) {
  if (search.text === "") return null;
  const kinds = rows.kinds === null ? () => false : keyMatcher(rows.kinds);
  const files = rows.files.map(matchesSearch), threads = rows.threads.map(matchesSearch);
  return (i) => files[rows.file[i] - 1] || threads[rows.thread[i]] || kinds(rows.kind[i]);
}

function requestRow(table, { rows, i, q2c }) {
  const time = (ns) => (isTimed(rows, i) ? figureCell(ns, "ns") : element("td", { title: "its completion was not seen, or its times are not in order" }, "-"));
  return element("tr", {},
    element("td", { "data-value": String(rows.t_us[i]) }, `${(rows.t_us[i] / 1e6).toFixed(6)} s`),
    ...(runs.length > 1 ? [nameCell(rows.run.tag)] : []),
    ...(rows.kinds?.labels ?? []).map((label) => nameCell(label.words[label.codes[rows.kind[i]]])),
    figureCell(rows.bytes[i], "bytes"),
    ...(table.hasDisks ? [nameCell(diskName(rows, rows.devs[rows.dev[i]]))] : []),
    rows.sector[i] < 0 ? element("td", {}, "-") : figureCell(rows.sector[i] * SECTOR_BYTES, "bytes"),
    ...(table.hasQueue ? [time(rows.q2d_ns[i]), time(rows.d2c_ns[i]), time(q2c)] : [time(rows.d2c_ns[i])]),
    nameCell(rows.file[i] > 0 ? rows.files[rows.file[i] - 1] : "-"), nameCell(rows.threads[rows.thread[i]] ?? "-"));
}

// A disk's name as its map has it, else its number.
const diskName = (rows, dev) => rows.run.maps.find((map) => map.dev === dev)?.name ?? `${Math.floor(dev / 2 ** 20)}:${dev % 2 ** 20}`;
