// SPDX-License-Identifier: BSD-2-Clause
// When each table and flame graph is drawn anew: those in sight at once, at most once a frame; the others, and those
// that take long, when the window has been still for a moment. All of them before the page is printed.

const STILL_MS = 120;
const FRAME_MS = 40;  // what drawing takes of a frame before it waits for the next: the pointer must not stick
const blocks = [];  // what follows the window: { place, draw, slow, stale, inSight }
let framePending = false, stillTimer = 0, tellDrawn;
const firstDrawn = new Promise((resolve) => { tellDrawn = resolve; });  // everything was drawn once

const sight = new IntersectionObserver((entries) => {
  for (const entry of entries) blocks.find((block) => block.place === entry.target).inSight = entry.isIntersecting;
  askFrame();
}, { rootMargin: "200px" });

// Draw into `place` by draw(window), now and whenever the window changes. slow: not while the window is being dragged.
function follow(place, draw, slow = false) {
  const block = { place, draw, slow, stale: true, inSight: false };
  blocks.push(block);
  sight.observe(place);
  askFrame();
  return block;
}

// Draw these blocks again, as for another window.
function invalidate(some = blocks) {
  for (const block of some) block.stale = true;
  document.getElementById("live-tables").removeAttribute("data-window");
  askFrame();
}

function askFrame() {
  if (!framePending) requestAnimationFrame(drawInSight);
  framePending = true;
}

// Draw the blocks that are stale and wanted, until the time is up. Whether none is left.
function drawStale(wanted, most_ms = Infinity) {
  const begin = performance.now();
  for (const block of blocks) {
    if (!block.stale || !wanted(block)) continue;
    if (performance.now() - begin > most_ms) return false;
    block.stale = false;
    block.draw(windowNow());
  }
  return true;
}

function drawInSight() {
  framePending = false;
  clearTimeout(stillTimer);
  if (drawStale((block) => block.inSight && !block.slow, FRAME_MS)) stillTimer = setTimeout(drawRest, STILL_MS);
  else askFrame();
}

// One block at a time, so that a key or the pointer is answered between two of them. At the end data-window says for
// which window, in ns, everything is drawn.
function drawRest() {
  const next = blocks.find((block) => block.stale && block.inSight) ?? blocks.find((block) => block.stale);
  if (next === undefined) {
    const { start_ns, end_ns } = windowNow();
    document.getElementById("live-tables").dataset.window = `${start_ns} ${end_ns}`;
    tellDrawn();
    return;
  }
  drawStale((block) => block === next);
  stillTimer = setTimeout(drawRest, 0);
}

on("brush", () => invalidate());
window.addEventListener("resize", () => invalidate());  // names fit into frames of flame graphs, or no longer
window.addEventListener("beforeprint", () => drawStale(() => true));
