// SPDX-License-Identifier: BSD-2-Clause
// The strip of marks: phases, findings, dips, commits. A click goes to a mark's window; so do keys, and a list of all.

const MARK_ROW_PX = 16, MOST_MARK_ROWS = 8;
const MARK_ROWS = ["finding", "phase", "dip", "commit", "stop"];  // other kinds below
const MOST_LISTED = 500;

const markKinds = () => {
  const kinds = new Set(runs.flatMap((run) => run.marks.map((mark) => mark.kind)));
  return [...MARK_ROWS.filter((kind) => kinds.has(kind)), ...[...kinds].filter((kind) => !MARK_ROWS.includes(kind)).sort()];
};

// Marks of one kind in rows, so that long ones do not hide others: each in the first row that is free. What fits into no
// row shares the last.
function markRows(run, kind) {
  const rows = [];
  for (const mark of run.marks.filter((one) => one.kind === kind)) {
    let row = rows.find((one) => one.end_ns <= mark.start_ns);
    if (!row && rows.length < (kind === "finding" ? MOST_MARK_ROWS : 1)) rows.push(row = { marks: [], end_ns: -Infinity, shared: 0 });
    if (!row) (row = rows.at(-1)).shared++;
    row.marks.push(mark);
    row.end_ns = Math.max(row.end_ns, mark.end_ns);
  }
  return rows.map((row) => ({ kind, marks: row.marks, shared: row.shared }));
}

function marksPlot() {
  const rowsOfRun = new Map(runs.map((run) => [run, markKinds().flatMap((kind) => markRows(run, kind))]));
  const rows = (cell) => rowsOfRun.get(cell.run);
  return {
    key: "marks",
    title: "Marks",
    height: (cells) => Math.max(1, ...cells.map((cell) => rows(cell).length)) * MARK_ROW_PX,
    load: () => Promise.resolve({}),
    draw: (pen, box, data, range, cell) => drawMarks(pen, box, rows(cell)),
    read: (data, time, x, y, cell) => readMarksAt(marksAt(rows(cell), x, y)),
    click: (x, y, cell) => {
      const found = marksAt(rows(cell), x, y);
      if (found.length) goToMark(found[0]);
      return found.length > 0;
    },
    tools: () => [markTools()],
  };
}

function drawMarks(pen, box, rows) {
  if (!rows.length) penText(pen, "no phases, findings or events", axis.left + 8, box.top + box.height / 2);
  rows.forEach(({ kind, marks, shared }, i) => {
    const top = box.top + i * MARK_ROW_PX, color = paper().marks[kind] ?? paper().marks.other;
    if (i === 0 || rows[i - 1].kind !== kind) penText(pen, kind, axis.left - 6, top + MARK_ROW_PX / 2, { align: "right", size: 10.5, room: axis.left - 8 });
    pen.save();
    clipToPlot(pen, box);
    if (kind === "phase") drawPhases(pen, top, marks);
    else drawMarkRow(pen, top, marks, kind === "finding" && shared ? `and ${countText(shared)} more here: ` : "", color);
    pen.restore();
  });
}

function drawPhases(pen, top, marks) {
  let lastX = -Infinity;
  marks.forEach((mark, i) => {
    if (mark.end_ns < view.start_ns || mark.start_ns > view.end_ns) return;
    const x = Math.max(axis.left, xOfTime(mark.start_ns)), end = Math.min(axis.left + plotWidth(), xOfTime(mark.end_ns));
    if (end < lastX + 0.5) return;  // many in one pixel look like one
    lastX = end;
    pen.fillStyle = paper().bands[i % 2];
    pen.fillRect(x, top, Math.max(end - x, 1), MARK_ROW_PX - 2);
    if (end - x > 24) penText(pen, mark.name, (x + end) / 2, top + MARK_ROW_PX / 2 - 0.5, { align: "center", size: 10.5, color: paper().ink, room: end - x - 6 });
  });
}

// Where marks are narrower than a pixel, the bar of a pixel is as tall as they are many.
function drawMarkRow(pen, top, marks, more, color) {
  const many = new Float64Array(Math.ceil(plotWidth()) + 1), tall = MARK_ROW_PX - 3;
  for (const mark of marks) {
    if (mark.end_ns < view.start_ns || mark.start_ns > view.end_ns) continue;
    const x = xOfTime(mark.start_ns), end = xOfTime(mark.end_ns);
    if (end - x < 2) {
      many[Math.max(0, Math.min(many.length - 1, Math.floor(x - axis.left)))]++;
      continue;
    }
    const low = Math.max(x, axis.left), width = Math.min(end, axis.left + plotWidth()) - low;
    pen.fillStyle = color;
    pen.globalAlpha = 0.22;
    pen.fillRect(low, top + 1, width, tall);
    pen.globalAlpha = 1;
    pen.strokeStyle = color;
    pen.lineWidth = 1;
    pen.strokeRect(low + 0.5, top + 1.5, Math.max(width - 1, 0.5), tall - 1);
    const text = mark.number ? `${mark.number} ${mark.text || mark.name}` : mark.name;
    if (more && mark !== marks[0]) continue;  // texts over one another cannot be read
    if (width > 20) penText(pen, more + text, low + 4, top + MARK_ROW_PX / 2, { size: 10.5, color: paper().ink, room: Math.max(width - 6, 0) });
  }
  const most = many.reduce((a, b) => Math.max(a, b), 1);
  pen.fillStyle = color;
  many.forEach((count, px) => {
    if (!count) return;
    const height = tall * (0.5 + 0.5 * shareOf(count, most));
    pen.fillRect(axis.left + px, top + 1 + tall - height, 1.5, height);
  });
}

// The marks at a place of the strip, the shortest first.
function marksAt(rows, x, y) {
  const row = rows[Math.floor((y - PLOT_PAD) / MARK_ROW_PX)], from = timeOfX(x - 3), to = timeOfX(x + 3);
  const found = (row?.marks ?? []).filter((mark) => mark.start_ns <= to && mark.end_ns >= from);
  return found.sort((a, b) => a.end_ns - a.start_ns - (b.end_ns - b.start_ns));
}

function readMarksAt(found) {
  if (!found.length) return null;
  const [mark] = found, rows = [
    { name: "from", value: `${secondsText(mark.start_ns, 1000)} s` }, { name: "to", value: `${secondsText(mark.end_ns, 1000)} s` },
    { name: "length", value: nsText(mark.end_ns - mark.start_ns) },
  ];
  const head = `${mark.kind}${mark.number ? ` ${mark.number}` : ""}: ${mark.name}`;
  return { head, rows, notes: [mark.text === mark.name ? "" : mark.text, found.length > 1 ? `${found.length - 1} more here` : "", "click: show its window"].filter(Boolean) };
}

// --- from mark to mark ------------------------------------------------------------------------------------------

const orderedMarks = (kinds = null) => runs.flatMap((run) => run.marks.filter((mark) => kinds === null || kinds.includes(mark.kind)))
  .sort((a, b) => a.start_ns - b.start_ns || a.end_ns - b.end_ns);
let markShown = null;  // the mark that a key went to last

// The mark after (way 1) or before (way -1) the one shown, or else the window.
function stepMark(way, kinds = null) {
  const all = orderedMarks(kinds), now = brush ?? view;
  const shown = markShown !== null && brush !== null && clamped(markShown.start_ns, markShown.end_ns).start_ns === brush.start_ns ? all.indexOf(markShown) : -1;
  const later = (mark) => (way > 0 ? mark.start_ns > now.start_ns || (brush === null && mark.start_ns >= now.start_ns) : mark.start_ns < now.start_ns);
  const next = shown >= 0 ? all[shown + way] : way > 0 ? all.find(later) : all.findLast(later);
  if (next === undefined) return;
  markShown = next;
  goToMark(next);
}

function markTools() {
  const list = element("select", { "aria-label": "go to a mark", onchange: () => {
    const mark = listed[Number(list.value)];
    list.selectedIndex = 0;
    if (mark) goToMark(markShown = mark);
  } }, element("option", { value: "" }, "go to…"));
  const listed = [];
  for (const kind of markKinds()) {
    const marks = orderedMarks([kind]), group = element("optgroup", { label: marks.length > MOST_LISTED ? `${kind} (the first ${MOST_LISTED} of ${countText(marks.length)})` : kind });
    for (const mark of marks.slice(0, MOST_LISTED)) {
      group.append(element("option", { value: String(listed.length) }, `${mark.number ? `${mark.number} ` : ""}${mark.kind === "finding" && mark.text ? mark.text : mark.name} at ${secondsText(mark.start_ns)} s`));
      listed.push(mark);
    }
    list.append(group);
  }
  return element("span", { class: "plot-tools" }, button("◂", () => stepMark(-1), { "aria-label": "the mark before", title: "the mark before (p)" }),
    button("▸", () => stepMark(1), { "aria-label": "the next mark", title: "the next mark (n)" }), list);
}
