// SPDX-License-Identifier: BSD-2-Clause
// The keys of the page, buttons for what they do, and the list of them.

const KEYS = [
  { keys: ["ArrowLeft"], text: "←", does: "earlier", act: () => panBy(-0.25) },
  { keys: ["ArrowRight"], text: "→", does: "later", act: () => panBy(0.25) },
  { keys: ["+", "="], text: "+", does: "zoom in", act: () => zoomAt(zoomCentre(), 0.5) },
  { keys: ["-", "_"], text: "−", does: "zoom out", act: () => zoomAt(zoomCentre(), 2) },
  { keys: ["0"], text: "0", does: "show the whole run", act: () => setView(whole.start_ns, whole.end_ns) },
  { keys: ["z"], text: "z", does: "zoom to the window", act: () => setView(windowNow().start_ns, windowNow().end_ns) },
  { keys: ["Home"], text: "Home", does: "to the begin", act: () => setView(whole.start_ns, whole.start_ns + viewLength()) },
  { keys: ["End"], text: "End", does: "to the end", act: () => setView(whole.end_ns - viewLength(), whole.end_ns) },
  { keys: ["Shift+ArrowLeft"], text: "Shift ←", does: "the window ends earlier", act: () => moveEdge("end_ns", -1) },
  { keys: ["Shift+ArrowRight"], text: "Shift →", does: "the window ends later", act: () => moveEdge("end_ns", 1) },
  { keys: ["Shift+ArrowDown", ","], text: "Shift ↓ or ,", does: "the window begins earlier", act: () => moveEdge("start_ns", -1) },
  { keys: ["Shift+ArrowUp", "."], text: "Shift ↑ or .", does: "the window begins later", act: () => moveEdge("start_ns", 1) },
  { keys: ["Escape"], text: "Esc", does: "no window: the whole run", act: () => setBrush(null) },
  { keys: ["["], text: "[", does: "the dip before", act: () => stepMark(-1, ["dip"]) },
  { keys: ["]"], text: "]", does: "the next dip", act: () => stepMark(1, ["dip"]) },
  { keys: ["p"], text: "p", does: "the mark before", act: () => stepMark(-1) },
  { keys: ["n"], text: "n", does: "the next mark", act: () => stepMark(1) },
  { keys: ["/"], text: "/", does: "search" },
  { keys: ["d"], text: "d", does: "dark or light", act: switchTheme },
  { keys: ["?"], text: "?", does: "this list", act: () => showKeys() },
];
const POINTER_HELP = [
  ["drag", "choose a window"], ["drag an edge of the window", "move it"], ["Shift and drag, two fingers", "pan"], ["wheel, pinch", "zoom at the pointer"],
  ["double click", "zoom to the window"], ["wheel or drag at the left of an offset map", "zoom or pan its offsets"],
];

const zoomCentre = () => {
  const middle = brush === null ? NaN : (brush.start_ns + brush.end_ns) / 2;
  return middle > view.start_ns && middle < view.end_ns ? middle : (view.start_ns + view.end_ns) / 2;
};

// Move an edge of the brush by a hundredth of the view; without a brush one begins in the middle.
function moveEdge(edge, way) {
  const step = viewLength() / 100;
  if (brush === null) {
    const middle = (view.start_ns + view.end_ns) / 2;
    setBrush(middle - 5 * step, middle + 5 * step);
    return;
  }
  const moved = { ...brush, [edge]: brush[edge] + way * step };
  if (moved.end_ns - moved.start_ns >= SHORTEST_NS) setBrush(moved.start_ns, moved.end_ns);
}

function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest?.("input, select, textarea, [contenteditable], dialog, summary")) return;
    const name = event.shiftKey && event.key.startsWith("Arrow") ? `Shift+${event.key}` : event.key;
    const found = KEYS.find((one) => one.keys.includes(name));
    // a scrolled table keeps its arrows, Home and End
    if (!found?.act || (event.target.closest?.(".scroll") && /^(Arrow|Home|End)/.test(event.key))) return;
    event.preventDefault();
    found.act();
  });
}

function makeToolbar() {
  const of = (key, text) => {
    const { does, act, text: keyText } = KEYS.find((one) => one.keys.includes(key));
    return button(text, act, { title: `${does} (${keyText})`, "aria-label": does, "data-key": key });
  };
  return element("div", { class: "plot-toolbar", role: "toolbar", "aria-label": "time in view" }, of("ArrowLeft", "←"), of("ArrowRight", "→"), of("+", "+"), of("-", "−"),
    of("0", "whole"), of("z", "to window"), of("[", "dip before"), of("]", "next dip"), of("d", "dark or light"), of("?", "keys"));
}

function showKeys() {
  let dialog = document.getElementById("plot-keys");
  if (dialog === null) {
    const row = ([keys, does]) => element("tr", {}, element("th", { scope: "row", class: "left" }, keys), element("td", { class: "left" }, does));
    dialog = element("dialog", { id: "plot-keys", "aria-label": "keys" }, element("h3", {}, "Keys and pointer"),
      element("table", {}, element("tbody", {}, ...KEYS.map((one) => row([one.text, one.does])), ...POINTER_HELP.map(row))),
      element("form", { method: "dialog" }, element("button", { autofocus: true }, "Close")));
    document.body.append(dialog);
  }
  dialog.showModal();
}
