// SPDX-License-Identifier: BSD-2-Clause
// Call paths as a tree: node i is the frame words[word[i]], called from node parent[i]; -1: called by none.

// The nodes in an order in which a caller comes before those that it called. A damaged tree's loops are left out.
function callersFirst(nodes) {
  const count = nodes.parent.length, children = Array.from({ length: count }, () => []), order = [];
  for (let i = 0; i < count; i++) {
    const parent = nodes.parent[i];
    if (parent >= 0 && parent < count) children[parent].push(i);
    else order.push(i);
  }
  for (let at = 0; at < order.length; at++) order.push(...children[order[at]]);
  return order;
}

// The frames of a node's path, the innermost first.
function framesOf(label, node) {
  const frames = [];
  for (let at = node; at >= 0 && frames.length <= label.nodes.parent.length; at = label.nodes.parent[at])
    frames.push(label.words[label.nodes.word[at]]);
  return frames;
}

const FRAMES_IN_CELL = 4;

// A path in a table: the innermost frames, and all of them when it is opened.
function pathCell(label, node) {
  const frames = framesOf(label, node);
  const text = (some) => foreign(some.join(" < "));
  if (frames.length <= FRAMES_IN_CELL) return element("td", { class: "left path" }, text(frames));
  return element("td", { class: "left path" }, element("details", {},
    element("summary", {}, text(frames.slice(0, FRAMES_IN_CELL)), ` < ${frames.length - FRAMES_IN_CELL} more`), text(frames)));
}

// Which nodes have a frame on their path, at any depth, for which matches(word index) holds.
function nodesWith(label, matches) {
  const found = new Uint8Array(label.nodes.parent.length);
  for (const node of callersFirst(label.nodes)) {
    const parent = label.nodes.parent[node];
    found[node] = (parent >= 0 && found[parent]) || matches(label.nodes.word[node]) ? 1 : 0;
  }
  return found;
}
