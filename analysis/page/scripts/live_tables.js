// SPDX-License-Identifier: BSD-2-Clause
// What stands in the live part below the pictures: the window's fields, the search, then a table or flame graph for each
// cube, in the order that Python gave them.

async function makeTables(place) {
  const bar = element("div", { id: "window-bar" });
  document.getElementById("live").prepend(bar);
  makeSummary(bar);
  makeSearch(bar);
  place.append(element("nav", { id: "live-nav", "aria-label": "tables of the window" }));
  makeFindings(place);
  linkFindings();
  const keys = new Map();  // of the cubes of all runs, in their order
  for (const run of runs) for (const cube of run.cubes) if (cube.shown !== "none" && !keys.has(cube.key)) keys.set(cube.key, cube);
  const shown = [...keys.values()].sort((a, b) => a.order - b.order);
  const made = [];
  for (const cube of shown) if (cube.shown === "table") {
    made.push(attempt(() => makeCubeTable(place, cube.key)));
    if (cube.key === "requests") made.push(attempt(() => makePercentiles(place, "latency")), attempt(() => makeRequests(place)));
    if (cube.key === "bios") made.push(attempt(() => makePercentiles(place, "bios_latency")));
  }
  for (const cube of shown) if (cube.shown === "flame") made.push(attempt(() => makeFlame(place, cube.key)));
  makeNotes(place);
  makeNav();
  firstDrawn.then(() => Promise.all([...made, ...runs.map(rowsOf)])).then(() => { place.dataset.ready = "yes"; });
}

// A table that cannot be made does not take the others with it.
async function attempt(make) {
  try {
    await make();
  } catch (error) {
    document.getElementById("live-trouble").textContent = typeof DecompressionStream === "undefined"
      ? "This browser is too old for the figures of a window: it needs DecompressionStream." : `This page is damaged: ${error.message}`;
    for (const folded of document.querySelectorAll("#pictures-folded")) folded.open = true;
  }
}

function makeNav() {
  const links = [...document.querySelectorAll("#live-tables .live-block")].map((section) =>
    element("a", { href: `#${section.id}`, onclick: (event) => {
      event.preventDefault();  // the address keeps the window
      section.scrollIntoView();
      section.tabIndex = -1;
      section.focus({ preventScroll: true });
    } }, section.getAttribute("aria-label")));
  document.getElementById("live-nav").append(...links.flatMap((link) => [link, " "]));
}

// What is binned, what is left out and what was lost, of each run; what is so of all runs, once.
function makeNotes(place) {
  const of = new Map();  // text: the runs' tags
  for (const run of runs)
    for (const text of new Set([...run.notes, ...run.left_out.map((text) => `Not in this page: ${text}`)])) of.set(text, [...(of.get(text) ?? []), run.tag]);
  const texts = [...of].map(([text, tags]) => (tags.length < runs.length ? `${tags.join(", ")}: ${text}` : text));
  if (texts.length) place.append(element("section", { id: "live-notes", "aria-label": "About these figures" },
    element("h3", {}, "About these figures"), element("ul", {}, ...texts.map((text) => element("li", {}, foreign(text))))));
}

// Beside the live part the static pictures, which show the whole run, are one line until they are wanted: the browser leaves
// what stands in <noscript> as text, and so need not draw them.
function foldPictures() {
  const pictures = document.getElementById("pictures");
  if (pictures === null || !pictures.textContent.trim()) return;
  const folded = element("details", { id: "pictures-folded" }, element("summary", {}, "The same as pictures, of the whole run"));
  folded.addEventListener("toggle", () => {
    const page = new DOMParser().parseFromString(pictures.textContent, "text/html");  // the report's own HTML, as without scripts
    folded.append(...page.body.childNodes);
  }, { once: true });
  pictures.before(folded);
}
