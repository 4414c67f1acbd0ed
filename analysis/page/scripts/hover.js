// SPDX-License-Identifier: BSD-2-Clause
// What is at the pointer: the time, the value of each series with its unit, the request. A line shows the time in all pictures.

const hover = { box: null, asked: false, at: null };

function startHover(place) {
  hover.box = element("div", { id: "plot-hover", hidden: true });
  place.append(hover.box);
  place.addEventListener("pointermove", (event) => askHover(event.clientX, event.clientY, event.target));
  place.addEventListener("pointerdown", (event) => askHover(event.clientX, event.clientY, event.target));
  place.addEventListener("pointerleave", endHover);
  window.addEventListener("scroll", endHover, { passive: true });
  on("view", () => { if (hover.at) askHover(hover.at.x, hover.at.y, hover.at.target); });
}

function endHover() {
  hover.at = null;
  hover.box.hidden = true;
  document.getElementById("live-plots").classList.remove("crossed");
}

function askHover(x, y, target) {
  hover.at = { x, y, target };
  if (hover.asked) return;
  hover.asked = true;
  requestAnimationFrame(() => {
    hover.asked = false;
    if (hover.at) showHover(hover.at);
  });
}

// The picture at a point of the window, and the place in it in px of the picture.
function cellAt(target, clientX, clientY) {
  for (const entry of plots)
    for (const cell of entry.cells) {
      if (cell.canvas !== target) continue;
      const box = cell.canvas.getBoundingClientRect(), zoom = axis.width / box.width;
      return { entry, cell, x: (clientX - box.left) * zoom, y: (clientY - box.top) * zoom };
    }
  return null;
}

const inPlot = (x) => x >= axis.left && x <= axis.left + plotWidth();

function showHover({ x: clientX, y: clientY, target }) {
  const place = document.getElementById("live-plots"), found = cellAt(target, clientX, clientY);
  if (found === null || !inPlot(found.x)) {
    hover.box.hidden = true;
    place.classList.remove("crossed");
    return;
  }
  const { entry, cell, x, y } = found, time = timeOfX(x);
  place.classList.add("crossed");
  place.style.setProperty("--cross", `${(x / axis.width) * 100}%`);
  const read = cell.data === null ? null : entry.plot.read(cell.data, time, x, y, cell);
  const rows = (read?.rows ?? []).map((row) => {
    const swatch = element("span", { class: "swatch" });
    if (row.color) swatch.style.background = row.color;
    else swatch.style.visibility = "hidden";
    return element("tr", {}, element("td", {}, swatch), element("th", { scope: "row" }, foreign(row.name)), element("td", {}, foreign(row.value)));
  });
  hover.box.replaceChildren(element("p", { class: "hover-time" }, `${secondsText(time, viewLength() / plotWidth())} s`),
    ...(read?.head ? [element("p", {}, foreign(read.head))] : []), element("table", {}, element("tbody", {}, ...rows)),
    ...(read?.notes ?? []).map((note) => element("p", { class: "quiet" }, foreign(note))));
  hover.box.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = hover.box, room = document.documentElement;
  const left = clientX + 16 + width > room.clientWidth ? clientX - 16 - width : clientX + 16;
  const top = clientY + 16 + height > room.clientHeight ? clientY - 16 - height : clientY + 16;
  hover.box.style.left = `${Math.max(2, left)}px`;
  hover.box.style.top = `${Math.max(2, top)}px`;
}
