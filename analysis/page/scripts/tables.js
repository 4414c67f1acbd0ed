// SPDX-License-Identifier: BSD-2-Clause
// One table per cube: its rows in the window, sorted by the column that is asked for. Of several runs the rows of one
// name stand in one line, with a column for each run.

const ROWS_SHOWN = 12;
const MOST_CHOICES = 24;  // words of a label that has a field to choose one
const FIRST_CHOICE = { role: "workload" };  // by label: most time of all threads is sleep of idle ones
const TOGETHER_OF_RUNS = ["thread"];  // labels whose words differ from run to run: threads have numbers
const LARGEST = "largest";  // sorted by the largest figure of a row in any run: a row that only one run has may come first

// One table of all runs that have a cube of this key.
async function makeCubeTable(place, key) {
  const section = sectionOf(place, key, runs.map((run) => specOf(run, key)).find(Boolean));
  const cubes = await Promise.all(runs.map((run) => readable(run, key)));
  if (!cubes.some(Boolean)) return;
  const table = { key, section, cubes, first: cubes.find(Boolean), all: false, measure: 0 };
  table.measure = table.first.sort;
  table.head = element("tr");
  table.body = element("tbody");
  table.foot = element("tfoot");
  table.window = element("p", { class: "live-window" });
  table.more = button("", () => { table.all = !table.all; invalidate([table.block]); }, { class: "more" });
  table.choices = table.first.labels.map(() => ({ word: null, together: false }));  // of each label: the word whose rows are shown, null: all
  const choices = [...(runs.length > 1 ? [measureChoice(table)] : []), ...table.first.labels.map((label, index) => wordChoice(table, label, index))];
  if (choices.some(Boolean)) section.append(element("div", { class: "choices" }, ...choices.filter(Boolean)));
  section.append(table.window,
    element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": table.first.title },
      element("table", {}, element("thead", {}, table.head), table.body, table.foot)), table.more);
  appendDefinition(section, table.first);
  table.groups = groupsOf(table);
  table.columns = columnsOf(table);
  table.sorted = { column: runs.length > 1 ? LARGEST : table.columns.findIndex((column) => column.sortFirst), descending: true };
  makeHead(table);
  table.block = follow(section, (now) => drawTable(table, now));
  table.rows = cubes.map(() => null);
  if (key === "requests") runs.forEach(async (run, index) => {  // from then on the window needs no snapping to bins
    table.rows[index] = await rowsOf(run);
    if (table.rows[index] !== null) invalidate([table.block]);
  });
}

const specOf = (run, key) => run.cubes.find((cube) => cube.key === key);

// A run's cube with its columns; null where the run has none, or none that says anything.
async function readable(run, key) {
  const spec = specOf(run, key);
  return spec === undefined || spec.why ? null : cubeOf(run, key);
}

// The section of a table or flame graph, with its title; why it is empty, where a run says so.
function sectionOf(place, key, spec) {
  const section = element("section", { class: "live-block", id: `live-${key}`, "data-cube": key, "aria-label": spec.title },
    element("h3", {}, spec.title, spec.mark ? element("span", { class: "mark", title: "see why in Lost events and overhead" }, spec.mark) : ""));
  for (const run of runs) {
    const own = specOf(run, key), why = own === undefined ? "not recorded" : own.why;
    if (why) section.append(element("p", { class: "absent" }, runs.length > 1 ? foreign(`${run.tag}: `) : "", foreign(why)));
  }
  place.append(section);
  return section;
}

function appendDefinition(section, spec) {
  const text = [spec.definition, spec.bin_text].filter(Boolean).join(" ");
  if (text) section.append(element("details", { class: "definition" }, element("summary", {}, "what is counted"), element("p", {}, text)));
}

// The rows of the table: the keys of all runs, those as one that have the same name by the labels that are told apart.
// of[run][key]: the key's row; first[row]: a run and its key that have the row's name.
function groupsOf(table) {
  const rowOf = new Map(), first = [];
  const shown = table.choices.map((choice, index) => (choice.together ? -1 : index)).filter((index) => index >= 0);
  const of = table.cubes.map((cube, run) => Int32Array.from({ length: cube ? cube.keys : 0 }, (_, key) => {
    const name = JSON.stringify(shown.map((index) => wordOf(cube.labels[index], key)));
    if (!rowOf.has(name)) {
      rowOf.set(name, rowOf.size);
      first.push({ run, key });
    }
    return rowOf.get(name);
  }));
  return { of, first };
}

// The text of a key's label; of a call path its frames, the innermost first.
const wordOf = (label, key) => (label.nodes ? framesOf(label, label.codes[key]).join(" < ") : label.words[label.codes[key]]);

// The sums of a run's keys as sums of rows, without the keys that a choice or the search leaves out: `others` of them.
function sumOfRows(table, run, sum) {
  const cube = table.cubes[run], of = table.groups.of[run], test = rowTest(table, cube);
  const sums = cube.values.map(() => new Float64Array(table.groups.first.length)), used = new Uint8Array(table.groups.first.length);
  let others = 0;
  for (let key = 0; key < cube.keys; key++) {
    if (!sum.sums.some((one) => one[key] !== 0)) continue;
    if (test !== null && !test(key)) {
      others++;
      continue;
    }
    const row = of[key];
    used[row] = 1;
    cube.values.forEach((value, k) => { sums[k][row] = value.how === "max" ? Math.max(sums[k][row], sum.sums[k][key]) : sums[k][row] + sum.sums[k][key]; });
  }
  const all = cube.values.map((value, k) => sums[k].reduce(value.how === "max" ? (a, b) => Math.max(a, b) : (a, b) => a + b, 0));
  return { ...sum, sums, all, used, others, ofWindow: sum.all };
}

// --- columns ----------------------------------------------------------------------------------------------------

// What can be shown of a row: values, then ratios. of(sum, row): its figure in a run's sums; row null: of all rows.
function measuresOf(cube) {
  const value = (index) => (sum, row) => (row === null ? sum.all[index] : sum.sums[index][row]);
  return [
    ...cube.values.map((one, index) => ({ name: one.name, unit: one.unit, how: one.how, of: value(index) })),
    ...cube.ratios.map((ratio) => ({
      name: ratio.name, unit: ratio.unit, how: "ratio", ratio,
      of: (sum, row) => value(ratio.over)(sum, row) / (ratio.under === null ? (sum.end_ns - sum.start_ns) / 1e9 : value(ratio.under)(sum, row)),
    })),
  ];
}

// The columns behind the labels. figure(sums, row): of a row of the sums of each run; row null: of all rows.
function columnsOf(table) {
  const cube = table.first, measures = measuresOf(cube);
  const of = (measure, run) => (sums, row) => (sums[run] === null ? NaN : measure.of(sums[run], row));
  if (runs.length > 1) {
    const measure = measures[table.measure];
    return table.cubes.flatMap((_, run) => [
      { name: runs[run].tag, unit: measure.unit, figure: of(measure, run) },
      ...(run === 0 ? [] : [{
        name: `/ ${runs[0].tag}`, unit: "times", hint: `${runs[run].tag} divided by ${runs[0].tag}`,
        figure: (sums, row) => of(measure, run)(sums, row) / of(measure, 0)(sums, row),
      }]),
    ]);
  }
  const main = measures[cube.sort];
  const share = {
    name: "share", unit: "share", hint: `share of ${main.name} of all rows in the window`,
    figure: (sums, row) => (sums[0] === null ? NaN : of(main, 0)(sums, row) / (sums[0].ofWindow ?? sums[0].all)[cube.sort]),
  };
  return measures.flatMap((measure, index) => {
    const column_ = { name: measure.name, unit: measure.unit, figure: of(measure, 0), sortFirst: index === cube.sort };
    return index === cube.sort && main.how === "sum" ? [column_, share] : [column_];
  });
}

function measureChoice(table) {
  const choice = element("select", {
    onchange: () => {
      table.measure = Number(choice.value);
      table.columns = columnsOf(table);
      makeHead(table);
      invalidate([table.block]);
    },
  }, ...measuresOf(table.first).map((measure, index) =>
    element("option", { value: String(index), selected: index === table.measure }, measure.name)));
  return element("label", {}, "shown ", choice);
}

// A field for a label: its rows each, together as one, or those of one word. null: the label has one word only.
function wordChoice(table, label, index) {
  const found = [...new Set(table.cubes.flatMap((cube) => (cube ? cube.labels[index].words : [])))].sort();
  if (found.length < 2) return null;
  const words = label.nodes || found.length > MOST_CHOICES ? [] : found, choice = table.choices[index];
  if (words.includes(FIRST_CHOICE[label.name])) choice.word = FIRST_CHOICE[label.name];
  if (runs.length > 1 && TOGETHER_OF_RUNS.includes(label.name)) choice.together = true;
  const field = element("select", {
    onchange: () => {
      table.choices[index] = { word: words[field.selectedIndex - 2] ?? null, together: field.selectedIndex === 1 };
      table.groups = groupsOf(table);
      makeHead(table);
      invalidate([table.block]);
    },
  }, element("option", {}, "each"), element("option", { selected: choice.together }, "together"),
  ...words.map((word) => element("option", { selected: word === choice.word }, word || "(none)")));
  return element("label", {}, foreign(label.name), " ", field);
}

// A function that says whether a cube's key has the words that are chosen and matches the search; null: nothing is.
function rowTest(table, cube) {
  const tests = [keyMatcher(cube), ...table.choices.map(({ word }, index) => {
    const label = cube.labels[index];
    return word === null ? null : (key) => label.words[label.codes[key]] === word;
  })].filter(Boolean);
  return tests.length ? (key) => tests.every((test) => test(key)) : null;
}

const isNarrowed = (table) => search.text !== "" || table.choices.some(({ word }) => word !== null);

// The labels that have a column, by their indexes.
const shownLabels = (table) => table.choices.flatMap(({ together }, index) => (together ? [] : [index]));

function makeHead(table) {
  const sortBy = (column, descendingFirst) => () => {
    table.sorted = { column, descending: table.sorted.column === column ? !table.sorted.descending : descendingFirst };
    invalidate([table.block]);
  };
  table.head.replaceChildren(
    ...shownLabels(table).map((index) => element("th", { class: "left", scope: "col" }, button(table.first.labels[index].name, sortBy(-1 - index, false), { "data-column": String(-1 - index) }))),
    ...table.columns.map((column, index) => element("th", { scope: "col", title: column.hint ?? null }, button(column.name, sortBy(index, true), { "data-column": String(index) }))));
}

// --- drawing ------------------------------------------------------------------------------------------------------

function drawTable(table, now) {
  const whole_ = table.cubes.map((cube, run) => (cube === null ? null : sumRows(table.rows[run], now) ?? cubeSum(cube, now.start_ns, now.end_ns)));
  const sums = whole_.map((sum, run) => sum && sumOfRows(table, run, sum));
  const rows = table.groups.first.flatMap((_, row) => (sums.some((sum) => sum !== null && sum.used[row]) ? [row] : []));
  const others = sums.reduce((count, sum) => count + (sum?.others ?? 0), 0);
  tellFound(table.first.title, rows.length);
  sortRows(table, rows, sums);
  table.body.replaceChildren(...(table.all ? rows : rows.slice(0, ROWS_SHOWN)).map((row) => rowOfTable(table, sums, row)));
  const line = (name, of) => element("tr", {}, element("th", { class: "left", scope: "row", colspan: String(Math.max(shownLabels(table).length, 1)) }, name),
    ...table.columns.map((column) => cellOf(column, of, null)));
  table.foot.replaceChildren(...(isNarrowed(table) ? [line("all of these rows", sums)] : []), line("all in the window", whole_));
  for (const cell of table.head.children) {
    const order = Number(cell.firstChild.dataset.column) === table.sorted.column ? (table.sorted.descending ? "descending" : "ascending") : null;
    if (order) cell.setAttribute("aria-sort", order);
    else cell.removeAttribute("aria-sort");
  }
  table.window.textContent = binnedText(table.cubes, whole_) +
    (others ? ` ${countText(others)} other rows are not shown: ${search.text ? "the search" : "the choice"} leaves them out.` : "");
  table.more.hidden = rows.length <= ROWS_SHOWN;
  table.more.textContent = table.all ? `show the first ${ROWS_SHOWN}` : `show all ${countText(rows.length)}`;
  const one = whole_.find((sum) => sum !== null);
  if (one) Object.assign(table.section.dataset, { startNs: one.start_ns, endNs: one.end_ns });
}

// By the sorted column; rows that are equal by it keep their order. A figure that is not known comes after all others.
function sortRows(table, rows, sums) {
  const { column, descending } = table.sorted;
  const wanted = column === LARGEST ? table.columns.filter((one) => one.unit !== "times") : [table.columns[column]];
  const figureOf = (row) => Math.max(...wanted.map((one) => one.figure(sums, row)).map((figure) => (Number.isFinite(figure) ? figure : -Infinity)));
  const values = new Map(rows.map((row) => [row, column < 0 ? nameOf(table, row, -1 - column) : figureOf(row)]));
  const compare = column < 0
    ? (a, b) => values.get(a).localeCompare(values.get(b), "en", { numeric: true })
    : (a, b) => (values.get(a) === values.get(b) ? 0 : values.get(a) - values.get(b));
  rows.sort((a, b) => (descending ? compare(b, a) : compare(a, b)) || a - b);
}

function nameOf(table, row, index) {
  const { run, key } = table.groups.first[row];
  return wordOf(table.cubes[run].labels[index], key);
}

function rowOfTable(table, sums, row) {
  const { run, key } = table.groups.first[row];
  const labels = shownLabels(table).map((index) => {
    const label = table.cubes[run].labels[index];
    return label.nodes ? pathCell(label, label.codes[key]) : nameCell(label.words[label.codes[key]]);
  });
  return element("tr", {}, ...(labels.length ? labels : [element("td")]), ...table.columns.map((column) => cellOf(column, sums, row)));
}

// A long name breaks anywhere, a short one between words.
const LONG_NAME = 32;
const nameCell = (text) => element("td", { class: text.length > LONG_NAME ? "left long" : "left" }, foreign(text));

function cellOf(column, sums, row) {
  const figure = column.figure(sums, row);
  if (column.unit === "times") return element("td", { class: "times" }, Number.isFinite(figure) ? `${figures(figure)} x` : "-");
  if (column.unit !== "share") return figureCell(figure, column.unit);
  const share = Math.max(0, Math.min(1, Number.isFinite(figure) ? figure : 0));
  return element("td", { class: "share", "data-value": String(figure), style: `--share: ${(share * 100).toFixed(2)}%` }, percentText(figure));
}

// The window that a cube's bins give, and how long they are.
function binsText(cube, sum) {
  if (cube === null) return "";
  if (sum === null) return "Nothing was recorded in this window.";
  if (sum.exact) return `${windowText(sum)}, of every single request.`;
  const bins = sum.last - sum.first, mean_ns = (sum.end_ns - sum.start_ns) / bins;
  return `${windowText(sum)}: ${countText(bins)} ${bins === 1 ? "bin" : "bins"} of ${nsText(mean_ns)}.`;
}

const binnedText = (cubes, sums) => sayOnce(sums.map((sum, run) => binsText(cubes[run], sum)), runs.map((run) => run.tag));

// What is said of each run; what is the same of all of them, once.
function sayOnce(texts, tags) {
  const said = texts.filter(Boolean);
  if (new Set(said).size <= 1) return said[0] ?? "";
  return texts.map((text, i) => text && `${tags[i]}: ${text}`).filter(Boolean).join(" ");
}
