// SPDX-License-Identifier: BSD-2-Clause
// Mouse, touch and wheel: drag brushes, Shift and drag pans, the wheel zooms at the pointer, two fingers zoom and pan, a
// double click zooms to the brush. At the left of an offset map the wheel zooms its offsets, a drag pans them.

const EDGE_PX = 6, DRAG_PX = 3, WHEEL_REST_MS = 350;
const fingers = new Map();  // pointerId: { x, y } in px of the pictures
let drag = null;  // { kind, ... } while a button or a finger is down
const wheel = { last: 0, zooms: false };

function startPointer(place) {
  place.addEventListener("pointerdown", pointerDown);
  place.addEventListener("pointermove", pointerMoves);
  for (const name of ["pointerup", "pointercancel"]) place.addEventListener(name, pointerUp);
  place.addEventListener("dblclick", (event) => {
    const found = cellAt(event.target, event.clientX, event.clientY);
    if (found === null || !inPlot(found.x)) return;
    if (brush !== null) setView(brush.start_ns, brush.end_ns);
    else setView(whole.start_ns, whole.end_ns);
  });
  place.addEventListener("wheel", turnWheel, { passive: false });
}

// Within reach of an edge of the brush: the other edge stays. null: not there.
function otherEdge(x) {
  if (brush === null) return null;
  if (Math.abs(x - xOfTime(brush.end_ns)) <= EDGE_PX) return brush.start_ns;
  return Math.abs(x - xOfTime(brush.start_ns)) <= EDGE_PX ? brush.end_ns : null;
}

function pointerDown(event) {
  const found = cellAt(event.target, event.clientX, event.clientY);
  if (found === null || event.button > 1) return;
  const { entry, cell, x, y } = found;
  fingers.set(event.pointerId, { x, y });
  if (fingers.size === 2) {
    const [one, two] = [...fingers.values()];
    drag = { kind: "pinch", from: { ...view }, at: timeOfX((one.x + two.x) / 2), spread: Math.max(10, Math.abs(one.x - two.x)) };
    return;
  }
  if (x < axis.left) {
    if (!entry.plot.offsets) return;
    drag = { kind: "offsets", entry, y };
  } else if (event.shiftKey || event.button === 1) drag = { kind: "pan", x, from: { ...view } };
  else drag = { kind: "brush", x, fixed: otherEdge(x) ?? timeOfX(Math.min(x, axis.left + plotWidth())), moved: otherEdge(x) !== null, click: () => entry.plot.click?.(x, y, cell) };
  event.target.setPointerCapture(event.pointerId);
}

function pointerMoves(event) {
  const found = cellAt(event.target, event.clientX, event.clientY);
  if (found === null) return;
  const { entry, x, y } = found;
  if (fingers.has(event.pointerId)) fingers.set(event.pointerId, { x, y });
  if (drag === null) {
    event.target.style.cursor = x < axis.left ? (entry.plot.offsets ? "ns-resize" : "default") : otherEdge(x) !== null ? "ew-resize" : entry.plot.click ? "pointer" : "crosshair";
    return;
  }
  if (drag.kind === "pinch") {
    if (fingers.size < 2) return;
    const [one, two] = [...fingers.values()], length = (drag.from.end_ns - drag.from.start_ns) * (drag.spread / Math.max(10, Math.abs(one.x - two.x)));
    const start = drag.at - (((one.x + two.x) / 2 - axis.left) / plotWidth()) * length;
    setView(start, start + length);
  } else if (drag.kind === "pan") {
    const by = ((drag.x - x) / plotWidth()) * (drag.from.end_ns - drag.from.start_ns);
    setView(drag.from.start_ns + by, drag.from.end_ns + by);
  } else if (drag.kind === "offsets") {
    panOffsets(drag.entry.plot, (y - drag.y) / drag.entry.plot.height([]));
    drag.y = y;
  } else if (drag.moved || Math.abs(x - drag.x) >= DRAG_PX) {
    drag.moved = true;
    setBrush(drag.fixed, timeOfX(Math.max(axis.left, Math.min(x, axis.left + plotWidth()))));
  }
}

function pointerUp(event) {
  fingers.delete(event.pointerId);
  if (drag?.kind === "brush" && !drag.moved && event.type === "pointerup") drag.click();
  drag = null;
}

function zoomAt(time_ns, factor) {
  const length = Math.min(viewLength() * factor, whole.end_ns - whole.start_ns), share = (time_ns - view.start_ns) / viewLength();
  setView(time_ns - share * length, time_ns - share * length + length);
}

function panBy(share) {
  setView(view.start_ns + viewLength() * share, view.end_ns + viewLength() * share);
}

// A turn that began outside the pictures goes on scrolling the page, and so does zooming out of the whole.
function turnWheel(event) {
  const now = performance.now(), isNew = now - wheel.last > WHEEL_REST_MS;
  wheel.last = now;
  const found = cellAt(event.target, event.clientX, event.clientY);
  const atOffsets = found !== null && found.x < axis.left && found.entry.plot.offsets !== undefined;
  const usable = found !== null && (inPlot(found.x) || atOffsets);
  const isWhole = view.start_ns === whole.start_ns && view.end_ns === whole.end_ns;
  const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
  if (isNew) wheel.zooms = usable && (atOffsets || sideways || event.shiftKey || !(isWhole && event.deltaY > 0));
  if (!usable || !(wheel.zooms || event.ctrlKey)) return;
  event.preventDefault();
  const turned = (event.deltaMode === 1 ? 30 : 1) * (sideways || event.shiftKey ? event.deltaX || event.deltaY : event.deltaY);
  const factor = Math.exp(Math.max(-1, Math.min(1, turned * (event.ctrlKey ? 0.01 : 0.0025))));
  if (sideways || event.shiftKey) panBy(turned / plotWidth());
  else if (atOffsets) {
    const { from, to } = found.entry.plot.offsets, share = 1 - (found.y - PLOT_PAD) / found.entry.plot.height([]);
    zoomOffsets(found.entry.plot, from + (to - from) * share, factor);
  } else zoomAt(timeOfX(found.x), factor);
}

window.addEventListener("scroll", () => { if (!wheel.zooms) wheel.last = performance.now(); }, { passive: true });
