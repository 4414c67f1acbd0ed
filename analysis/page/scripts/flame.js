// SPDX-License-Identifier: BSD-2-Clause
// A flame graph of the window: a frame is as wide as its time, its callers are below it, as in the report's pictures.
// Frames are buttons: a click zooms in, the arrow keys move between them.

const FRAME_PX = 18;
const NARROWEST_PX = 1.5;  // frames narrower than this are merged into one "… (n frames)", so no width is missing
const LEAST_DOTS_PX = 12;
const LEAST_TEXT_PX = 34;  // narrower frames have no text: fewer than five letters tell nothing

async function makeFlame(place, key) {
  const section = sectionOf(place, key, runs.map((run) => specOf(run, key)).find(Boolean));
  const cubes = await Promise.all(runs.map((run) => readable(run, key)));
  const first = cubes.find(Boolean);
  if (!first) return;
  cubes.forEach((cube, run) => { if (cube !== null) makeOneFlame(section, cube, runs.length > 1 ? runs[run].tag : ""); });
  appendDefinition(section, first);
}

function makeOneFlame(section, cube, tag) {
  const label = cube.labels.find((one) => one.nodes);
  const flame = {
    cube, label, order: callersFirst(label.nodes), focus: -1, current: -1,
    window: element("p", { class: "live-window" }),
    about: element("p", { class: "flame-about" }),
    out: button("whole graph", () => zoomFlame(flame, -1), { hidden: true }),
    frames: element("div", {
      class: `flame flame-${section.dataset.cube}`, role: "group",
      "aria-label": `${cube.title}${tag ? `, ${tag}` : ""}: frames; arrow keys move, Enter zooms, Backspace zooms out`,
      onkeydown: (event) => flameKey(flame, event),
      onmouseleave: () => aboutFlame(flame, flame.focus),
      onmouseover: (event) => { if (event.target.dataset.node) aboutFlame(flame, Number(event.target.dataset.node)); },
      onfocusin: (event) => { if (event.target.dataset.node) aboutFlame(flame, Number(event.target.dataset.node)); },
    }),
  };
  const parent = label.nodes.parent;
  flame.children = Array.from(parent, () => []);
  flame.roots = [];
  for (const node of flame.order) (parent[node] >= 0 ? flame.children[parent[node]] : flame.roots).push(node);
  section.append(tag ? element("h4", {}, foreign(tag)) : "", flame.window, spinLegend(cube, section.dataset.cube), flame.frames, element("div", { class: "flame-line" }, flame.about, flame.out));
  flame.block = follow(flame.frames, (now) => drawFlame(flame, now));
}

// What the colours mean, where the cube tells spinning from sleeping.
function spinLegend(cube, key) {
  if (!cube.values.some((value) => value.name === "spinning")) return "";
  const swatch = (class_, text) => element("span", {}, element("span", { class: `swatch ${class_}` }), text);
  return element("p", { class: `flame-legend flame-${key}` }, swatch("flame-spins", "spinning"), swatch("flame-sleeps", "sleeping"), "callers: paler, mixed by share");
}

// --- sums ---------------------------------------------------------------------------------------------------------

// Of each node its own time, that of all frames above it, and what of that was spent spinning, where the cube tells.
function sumFlame(flame, sum) {
  const { own, total } = nodeSums(flame, sum.sums[flame.cube.sort]);
  const spin = flame.cube.values.findIndex((value) => value.name === "spinning");
  return {
    own, total, all: sum.all[flame.cube.sort],
    spin: spin < 0 ? null : nodeSums(flame, sum.sums[spin]).total, allSpin: spin < 0 ? 0 : sum.all[spin],
  };
}

function nodeSums(flame, values) {
  const { parent } = flame.label.nodes, codes = flame.label.codes, own = new Float64Array(parent.length);
  for (let key = 0; key < values.length; key++) own[codes[key]] += values[key];
  const total = own.slice();
  for (let at = flame.order.length - 1; at >= 0; at--) {
    const node = flame.order[at];
    if (parent[node] >= 0) total[parent[node]] += total[node];
  }
  return { own, total };
}

const spinOf = (flame, node) => (flame.sums.spin === null ? 0 : node < 0 ? flame.sums.allSpin : flame.sums.spin[node]);

const flameName = (flame, node) => (node < 0 ? "all" : flame.label.words[flame.label.nodes.word[node]]);

function aboutFlame(flame, node) {
  if (!flame.sums) return;
  const { own, total, all } = flame.sums, unit = flame.cube.values[flame.cube.sort].unit;
  const time = node < 0 ? all : total[node];
  const text = `: ${withUnit(time, unit)}, ${percentText(time / all)} of the window's` +
    (node >= 0 && own[node] < total[node] && own[node] > 0 ? `; itself ${withUnit(own[node], unit)}` : "") +
    (flame.sums.spin === null ? "" : `; spinning ${withUnit(spinOf(flame, node), unit)}`);
  flame.about.replaceChildren(foreign(flameName(flame, node)), text);
}

// --- drawing ------------------------------------------------------------------------------------------------------

function drawFlame(flame, now) {
  const sum = cubeSum(flame.cube, now.start_ns, now.end_ns);
  flame.window.textContent = binsText(flame.cube, sum);
  flame.sums = sum === null ? null : sumFlame(flame, sum);
  if (flame.sums === null || !(flame.sums.all > 0)) {
    flame.frames.replaceChildren(element("p", { class: "absent" }, "nothing in this window"));
    flame.frames.style.height = "";
    flame.about.textContent = "";
    flame.out.hidden = true;
    return;
  }
  flame.window.dataset.startNs = sum.start_ns;
  flame.window.dataset.endNs = sum.end_ns;
  if (flame.focus >= 0 && !(flame.sums.total[flame.focus] > 0)) flame.focus = -1;
  flame.out.hidden = flame.focus < 0;
  const boxes = placedFrames(flame), deepest = boxes.reduce((most, box) => Math.max(most, box.depth), 0);
  const lit = search.text === "" ? null : matchingWords(flame.label);
  const focused = flame.frames.contains(document.activeElement);
  if (!boxes.some((box) => box.node === flame.current)) flame.current = flame.focus;
  flame.frames.style.height = `${(deepest + 1) * FRAME_PX}px`;
  flame.frames.replaceChildren(...boxes.map((box) => frameOf(flame, box, lit)));
  if (focused) flame.frames.querySelector('[tabindex="0"]')?.focus();
  aboutFlame(flame, flame.current);
  if (lit !== null) {
    const share = litShare(flame, lit);
    flame.window.append(` Frames that match the search have ${percentText(share)} of it.`);
    const found = new Set();
    for (const node of flame.order) if (flame.sums.total[node] > 0 && lit[flame.label.nodes.word[node]]) found.add(flame.label.nodes.word[node]);
    tellFound(flame.cube.title, found.size);
  }
}

// The frames in view: those below the focus over the whole width, and all above it that are wide enough to see.
function placedFrames(flame) {
  const { total, all } = flame.sums, parent = flame.label.nodes.parent, boxes = [];
  const below = [];
  for (let node = flame.focus; node >= 0; node = parent[node]) below.unshift(node);
  boxes.push({ node: -1, depth: 0, x: 0, width: 1 });
  below.forEach((node, index) => boxes.push({ node, depth: index + 1, x: 0, width: 1, below: node !== flame.focus }));
  const whole_ = flame.focus < 0 ? all : total[flame.focus];
  const least = NARROWEST_PX / Math.max(flame.frames.clientWidth, 300);
  const todo = [{ nodes: flame.focus < 0 ? flame.roots : flame.children[flame.focus], depth: below.length + 1, x: 0 }];
  while (todo.length) {
    const { nodes, depth, x: from } = todo.pop();
    const timed = nodes.filter((node) => total[node] > 0).sort((a, b) => total[b] - total[a] || a - b);
    let x = from, narrow = 0, merged = 0;
    for (const node of timed) {
      const width = total[node] / whole_;
      if (width < least) {
        narrow += width;
        merged += framesAbove(flame, node);
        continue;
      }
      boxes.push({ node, depth, x, width });
      todo.push({ nodes: flame.children[node], depth: depth + 1, x });
      x += width;
    }
    if (merged) boxes.push({ node: null, depth, x, width: narrow, merged });
  }
  return boxes;
}

// Frames of a node and of all above it that have time in the window.
function framesAbove(flame, node) {
  let count = 0;
  const todo = [node];
  while (todo.length) {
    const one = todo.pop();
    count++;
    for (const child of flame.children[one]) if (flame.sums.total[child] > 0) todo.push(child);
  }
  return count;
}

function frameOf(flame, box, lit) {
  const { node } = box, place = `left:${(box.x * 100).toFixed(4)}%;width:${(box.width * 100).toFixed(4)}%;bottom:${box.depth * FRAME_PX}px${node !== null && flame.sums.spin !== null ? `;--spin:${(spinOf(flame, node) / Math.max(node < 0 ? flame.sums.all : flame.sums.total[node], 1) * 100).toFixed(1)}%` : ""}`;
  const unit = flame.cube.values[flame.cube.sort].unit;
  if (node === null) {
    const time = box.width * (flame.focus < 0 ? flame.sums.all : flame.sums.total[flame.focus]);
    return element("span", { class: "merged", style: place, title: `… (${countText(box.merged)} frames): ${withUnit(time, unit)}` }, box.width * flame.frames.clientWidth < LEAST_DOTS_PX ? "" : "…");
  }
  const leaf = node >= 0 && !flame.children[node].some((child) => flame.sums.total[child] > 0);
  const time = node < 0 ? flame.sums.all : flame.sums.total[node];
  const classes = ["frame", leaf ? "leaf" : "", box.below ? "below" : "", lit !== null && node >= 0 && lit[flame.label.nodes.word[node]] ? "lit" : ""];
  const name = flameName(flame, node), figure = `${withUnit(time, unit)}, ${percentText(time / flame.sums.all)}`;
  return element("button", {
    type: "button", class: classes.filter(Boolean).join(" "), style: place, "data-node": String(node), "data-value": String(time),
    title: `${name}: ${figure}`, "aria-label": `${name}, ${figure}`, tabindex: node === flame.current ? "0" : "-1",
    onclick: () => zoomFlame(flame, node),
  }, box.width * flame.frames.clientWidth < LEAST_TEXT_PX ? "" : name);
}

function zoomFlame(flame, node) {
  flame.focus = flame.current = node;
  flame.block.stale = true;
  drawStale((block) => block === flame.block);
}

// The share of the time that has a frame of the search on its path: of nested ones the outermost counts.
function litShare(flame, lit) {
  const { total, all } = flame.sums, nodes = flame.label.nodes, inside = new Uint8Array(nodes.parent.length);
  let time = 0;
  for (const node of flame.order) {
    const parent = nodes.parent[node];
    if (parent >= 0 && inside[parent]) inside[node] = 1;
    else if (lit[nodes.word[node]]) {
      inside[node] = 1;
      time += total[node];
    }
  }
  return time / all;
}

// --- keyboard -----------------------------------------------------------------------------------------------------

// Up: the widest function that was called; down: the caller; left and right: beside it. Backspace: one caller out.
function flameKey(flame, event) {
  const node = Number(event.target.dataset.node), parent = flame.label.nodes.parent;
  if (event.target.dataset.node === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
  const drawn = (wanted) => flame.frames.querySelector(`[data-node="${wanted}"]`);
  const callerOf = (one) => (one < 0 ? null : parent[one]);
  const called = (one) => (one < 0 ? flame.roots : flame.children[one]).filter(drawn).sort((a, b) => flame.sums.total[b] - flame.sums.total[a] || a - b);
  const beside = (step) => {
    const row = node < 0 ? [node] : called(callerOf(node));
    return row[row.indexOf(node) + step] ?? null;
  };
  const moves = { ArrowUp: () => called(node)[0] ?? null, ArrowDown: () => callerOf(node), ArrowLeft: () => beside(-1), ArrowRight: () => beside(1) };
  if (event.key === "Backspace" || (event.key === "Escape" && flame.focus >= 0)) {
    event.preventDefault();
    event.stopPropagation();  // Esc elsewhere clears the window
    zoomFlame(flame, event.key === "Escape" ? -1 : callerOf(flame.focus) ?? -1);
    return;
  }
  if (!(event.key in moves)) return;
  event.preventDefault();
  event.stopPropagation();  // arrow keys elsewhere pan
  const to = moves[event.key]();
  if (to === null || !drawn(to)) return;
  drawn(node).tabIndex = -1;
  flame.current = to;
  drawn(to).tabIndex = 0;
  drawn(to).focus();
}
