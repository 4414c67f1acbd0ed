// SPDX-License-Identifier: BSD-2-Clause
// All pictures below one another, the runs side by side: HTML around them, when each is drawn, and print.
//
// A plot is an object: key; height(cells of all runs) in px; load(run, panel) → Promise of its data; scale(data, box, cell)
// → { low, high } of the figures and { most } requests of a tile in view, which the runs share; draw(pen, box, data, range, cell); read(data, time_ns, x, y, cell) → what is at the pointer; legend();
// hasNote: a line above the picture.

const plots = [];  // { plot, section, cells: [{ run, canvas, data, why }], stale, seen }
const drawing = { asked: false, resting: 0 };
const PLOT_PAD = 5;  // px above and below the drawing within a canvas
const PAGE_PX = 720;  // on paper
const WHY_PX = 14;  // of a picture with nothing but the reason

function startPlots() {
  const place = document.getElementById("live-plots");
  place.style.setProperty("--runs", runs.length);
  place.classList.toggle("many", runs.length > 2);
  place.setAttribute("role", "group");
  place.setAttribute("aria-label", "pictures over time; press ? for the keys");
  place.tabIndex = 0;
  place.append(makeToolbar());
  if (runs.length > 1)
    place.append(element("div", { class: "plot-cells plot-runs" }, ...runs.map((run) => element("div", {}, foreign(run.tag || run.title)))));
  addPlot(place, axisPlot(true), () => ({}));
  addPlot(place, marksPlot(), () => ({}));
  for (const { plot, of } of plotsOfRuns()) addPlot(place, plot, of);
  addPlot(place, axisPlot(false), () => ({}));
  measure();
  new ResizeObserver(measure).observe(place);
  watchPixelRatio();
  for (const event of ["view", "theme"]) on(event, () => askDrawing());
  on("brush", showBrush);
  on("view", showBrush);
  showBrush();
  for (const entry of plots) inSightOf.observe(entry.section);
  startPointer(place);
  startKeys();
  startHover(place);
  window.addEventListener("beforeprint", () => drawForPrint(true));
  window.addEventListener("afterprint", () => drawForPrint(false));
  loadAll();
}

// One plot for each key that any run has, in the order of the static IO graph. of(run): the run's own panel, or undefined.
// The plot is made from the panel with all runs' series: legend and mark are of all of them.
function plotsOfRuns() {
  const makers = { lines: seriesPlot, stacked: seriesPlot, lanes: lanesPlot, heat: heatPlot };
  const found = new Map();
  for (const run of runs)
    for (const panel of run.panels)
      if (!found.has(panel.key) && makers[panel.kind]) {
        const of = (one) => one.panels.find((own) => own.key === panel.key), joint = jointPanel(runs.map(of).filter(Boolean));
        found.set(panel.key, { order: panel.order, plot: makers[panel.kind](joint), title: joint, of });
      }
  const sorted = [...found.values()].sort((a, b) => a.order - b.order);
  for (const entry of sorted) Object.assign(entry.plot, { title: entry.title.title, unit: entry.title.unit, mark: entry.title.mark });
  return [...mapPlots(), ...sorted];
}

function jointPanel(panels) {
  const named = new Map();
  for (const panel of panels) for (const one of panel.series) if (!named.has(one.name)) named.set(one.name, one);
  return { ...panels[0], series: [...named.values()], mark: panels.find((panel) => panel.mark)?.mark ?? "" };
}

function addPlot(place, plot, of) {
  const cells = runs.map((run) => ({ run, panel: of(run), canvas: null, data: null, why: "" }));
  const head = plot.title ? element("h3", {}, foreign(plot.title), plot.mark ? element("span", { class: "mark" }, plot.mark) : "") : "";
  for (const cell of cells) {
    const label = `${plot.title || plot.label}${runs.length > 1 ? `, ${cell.run.tag || cell.run.title}` : ""}`;
    cell.canvas = element("canvas", { role: "img", "aria-label": label });
    cell.note = element("span", { class: "plot-note" });
    cell.place = element("div", { class: "plot-cell" }, ...(plot.hasNote ? [cell.note] : []), element("div", { class: "plot-canvas" }, cell.canvas));
  }
  const legend = element("div", { class: "plot-legend" });
  const section = element("section", { class: "plot", "data-plot": plot.key }, element("div", { class: "plot-head" }, head, legend, ...(plot.tools?.() ?? [])),
    element("div", { class: "plot-cells" }, ...cells.map((cell) => cell.place)));
  const entry = { plot, section, cells, legend, stale: true, seen: false };
  plots.push(entry);
  place.append(section);
  showLegend(entry);
}

function showLegend({ plot, legend }) {
  const swatch = (one) => {
    const made = element("span", { class: one.area ? "swatch" : "swatch line" });
    if (one.area) made.style.background = one.hatch ? `repeating-linear-gradient(135deg, ${colorOf(one)} 0 3px, ${paper().quiet} 3px 4px)` : colorOf(one);
    else made.style.borderTop = `${Math.round(one.width ?? 2)}px ${one.dash?.length ? "dashed" : "solid"} ${colorOf(one)}`;
    return made;
  };
  legend.replaceChildren(...(plot.legend?.() ?? []).map((one) => element("span", {}, swatch(one), foreign(one.name))));
}

// --- reading ----------------------------------------------------------------------------------------------------

// The pictures' data, one after the other: the page answers between two of them. Single requests come last.
async function loadAll() {
  for (const entry of plots) {
    await Promise.all(entry.cells.map((cell) => loadCell(entry.plot, cell)));
    refresh([entry]);
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  await loadPoints();
  refresh(plots.filter((entry) => entry.plot.points));
  document.getElementById("live-plots").dataset.ready = "yes";
  tell("ready", "plots");
}

async function loadCell(plot, cell) {
  const panel = cell.panel;
  cell.why = panel === undefined || panel === null ? "not in this run" : panel.why || "";
  if (cell.why) return;
  try {
    cell.data = await plot.load(cell.run, panel);
    if (Array.isArray(cell.data)) cell.data = { series: cell.data, panel };
  } catch (error) {
    cell.why = `this picture's data cannot be read: ${error.message}`;
  }
}

// --- drawing ----------------------------------------------------------------------------------------------------

const inSightOf = new IntersectionObserver((found) => {
  for (const one of found) plots.find((entry) => entry.section === one.target).seen = one.isIntersecting;
  askFrameOfPlots();
}, { rootMargin: "150px" });

function askDrawing() {
  refresh(plots);
}

function refresh(some) {
  for (const entry of some) entry.stale = true;
  askFrameOfPlots();
}

function askFrameOfPlots() {
  if (drawing.asked) return;
  drawing.asked = true;
  requestAnimationFrame(() => {
    drawing.asked = false;
    for (const entry of plots) if (entry.stale && entry.seen) drawPlot(entry);
    clearTimeout(drawing.resting);
    drawing.resting = setTimeout(drawHidden, 60);
  });
}

// Pictures out of sight, one at a time.
function drawHidden() {
  const entry = plots.find((one) => one.stale);
  if (!entry) return;
  drawPlot(entry);
  drawing.resting = setTimeout(drawHidden, 0);
}

function drawPlot(entry) {
  entry.stale = false;
  const { plot, cells } = entry;
  showLegend(entry);
  const height = cells.some((cell) => cell.data !== null || !cell.why) ? plot.height(cells) : WHY_PX;
  const box = boxOf(plot, height), range = {};
  for (const cell of cells.filter((one) => one.data !== null)) {
    const own = plot.scale?.(cell.data, box, cell) ?? {};
    range.low = Math.min(own.low, range.low ?? own.low);
    range.high = Math.max(own.high, range.high ?? own.high);
    range.most = Math.max(own.most, range.most ?? own.most);
  }
  for (const cell of cells) drawCell(plot, cell, box, range);
}

// Where a plot draws within its canvas, and how many pixels of the device a px has.
function boxOf(plot, height) {
  const scale = theme.printing ? 2 : window.devicePixelRatio || 1, full = height + 2 * PLOT_PAD;
  return plot.key.startsWith("axis") ? { top: 0, height: full, full, scale } : { top: PLOT_PAD, height, full, scale };
}

function drawCell(plot, cell, box, range) {
  const { scale, full } = box;
  const [width_, height_] = [Math.round(axis.width * scale), Math.round(full * scale)];
  if (cell.canvas.width !== width_ || cell.canvas.height !== height_) {
    cell.canvas.width = width_;
    cell.canvas.height = height_;
  }
  cell.canvas.style.aspectRatio = `${axis.width} / ${full}`;
  const pen = cell.canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.fillStyle = paper().ground;
  pen.fillRect(0, 0, axis.width, full);
  cell.note.textContent = "\u00a0";  // as tall as with a text
  if (cell.data === null) {
    penText(pen, cell.why || "reading the data…", axis.left, full / 2, { room: plotWidth(), size: 12 });
    return;
  }
  if (!plot.key.startsWith("axis")) drawTimeGrid(pen, box.top, box.height);
  if (runs.length > 1) drawOutside(pen, box, cell.run);
  pen.save();
  plot.draw(pen, box, cell.data, { ...range }, cell);
  pen.restore();
}

// Beside longer runs, the time that a run does not have: no figure there is no zero.
function drawOutside(pen, box, run) {
  const left = axis.left, right = axis.left + plotWidth(), inside = (ns) => Math.min(Math.max(xOfTime(ns), left), right);
  pen.fillStyle = hatched(pen, paper().ground, "////");
  pen.globalAlpha = 0.25;
  pen.fillRect(left, box.top, inside(run.start_ns) - left, box.height);
  pen.fillRect(inside(run.end_ns), box.top, right - inside(run.end_ns), box.height);
  pen.globalAlpha = 1;
}

// Drawings of time must not reach over the axes' margins.
function clipToPlot(pen, box) {
  pen.beginPath();
  pen.rect(axis.left, box.top - 1, plotWidth(), box.height + 2);
  pen.clip();
}

// --- size, brush, print -----------------------------------------------------------------------------------------

function measure() {
  if (theme.printing) return;
  const width = plots[0].cells[0].place.clientWidth;
  if (!(width > 0) || width === axis.width) return;
  setWidth(width);
  askDrawing();
}

function setWidth(width) {
  axis.width = width;
  axis.left = width < 480 ? 64 : 92;
  axis.right = width < 480 ? 6 : 16;
  document.getElementById("live-plots").style.setProperty("--axis-left", `${axis.left}px`);
  showBrush();
}

function watchPixelRatio() {
  window.matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`).addEventListener("change", () => {
    askDrawing();
    watchPixelRatio();
  }, { once: true });
}

// The brush is one style for the pictures of all runs: they have the same width and the same margins.
function showBrush() {
  const place = document.getElementById("live-plots");
  const inside = brush !== null && brush.end_ns > view.start_ns && brush.start_ns < view.end_ns;
  place.classList.toggle("brushed", inside);
  if (!inside) return;
  const low = Math.max(axis.left, xOfTime(brush.start_ns)), high = Math.min(axis.left + plotWidth(), xOfTime(brush.end_ns));
  place.style.setProperty("--brush-left", `${(low / axis.width) * 100}%`);
  place.style.setProperty("--brush-width", `${(Math.max(high - low, 1) / axis.width) * 100}%`);
}

// On paper: light, two pixels a point, as wide as a page, the pictures out of sight too.
function drawForPrint(printing) {
  theme.printing = printing;
  if (printing) setWidth(PAGE_PX / runs.length);
  else measure();
  for (const entry of plots) drawPlot(entry);
}
