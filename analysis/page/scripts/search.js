// SPDX-License-Identifier: BSD-2-Clause
// One search over all names: files, locks, threads, functions. Tables keep the rows that match, flame graphs light up.

const search = { text: "", field: null };

function makeSearch(place) {
  search.field = element("input", {
    type: "search", id: "search", placeholder: "file, lock, thread, function", autocomplete: "off", spellcheck: "false",
    "aria-describedby": "search-found",
    oninput: () => searchFor(search.field.value),
    onkeydown: (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();  // Esc elsewhere clears the window
      search.field.value = "";
      searchFor("");
      search.field.blur();
    },
  });
  place.append(element("div", { class: "search", role: "search" },
    element("label", {}, "Search ", search.field, " ", element("kbd", { "aria-hidden": "true" }, "/"))),
  element("output", { id: "search-found", for: "search" }));
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea, [contenteditable]");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    search.field.focus();
    search.field.select();
  });
}

function searchFor(text) {
  const wanted = text.trim().toLowerCase();
  if (wanted === search.text) return;
  search.text = wanted;
  invalidate();
}

const matchesSearch = (text) => search.text === "" || text.toLowerCase().includes(search.text);

// Which words of a label match: looked up per word, not per row.
const matchingWords = (label) => Uint8Array.from(label.words, (word) => (matchesSearch(word) ? 1 : 0));

// A function that says whether a cube's key has a label that matches. null: nothing is searched for.
function keyMatcher(cube) {
  if (search.text === "") return null;
  const tests = cube.labels.map((label) => {
    const words = matchingWords(label);
    const found = label.nodes ? nodesWith(label, (word) => words[word] === 1) : words;
    return (key) => found[label.codes[key]] === 1;
  });
  return (key) => tests.some((test) => test(key));
}

// What the tables found, by their titles. They tell it when they are drawn.
const foundIn = new Map();

function tellFound(title, count) {
  if (search.text === "") foundIn.clear();
  else foundIn.set(title, count);
  const found = [...foundIn].filter(([, number]) => number > 0).map(([name, number]) => `${name} ${countText(number)}`);
  document.getElementById("search-found").textContent =
    search.text === "" ? "" : found.length ? `found: ${found.join(", ")}` : "nothing in this window has this in its name";
}
