// SPDX-License-Identifier: BSD-2-Clause
// window.seekmeter: what tests and a reader's console may ask. Nothing of it changes the page.

function startHooks() {
  window.seekmeter = Object.freeze({
    state: () => ({
      view: { ...view }, brush: brush && { ...brush }, whole: { ...whole }, theme: theme.name,
      ready: document.getElementById("live-plots").dataset.ready === "yes",
      reading: plots.filter((entry) => entry.cells.some((cell) => cell.data === null && !cell.why)).map((entry) => entry.plot.key),
      waiting: plots.filter((entry) => entry.stale).map((entry) => entry.plot.key),  // pictures that are not drawn yet
    }),
    runs: () => runs.map((run) => ({ name: run.name, title: run.title, cubes: run.cubes.map((cube) => cube.key) })),
    // Promise of the sums of a run's cube over its bins nearest to a window, null outside of it
    sums: async (run, key, start_ns, end_ns) => {
      const cube = await cubeOf(runs[run], key);
      if (cube === null) return null;
      const found = cubeSum(cube, start_ns, end_ns);
      if (found === null) return null;
      const labels = (i) => Object.fromEntries(cube.labels.map((label) => [label.name, label.nodes ? label.codes[i] : label.words[label.codes[i]]]));
      const values = (at) => Object.fromEntries(cube.values.map((value, k) => [value.name, at(k)]));
      return {
        start_ns: found.start_ns, end_ns: found.end_ns, all: values((k) => found.all[k]),
        rows: Array.from({ length: cube.keys }, (_, i) => ({ labels: labels(i), values: values((k) => found.sums[k][i]) })),
      };
    },
    // what the picture shows at a place, as the pointer's box says it
    at: (key, run, x, y) => {
      const entry = plots.find((one) => one.plot.key === key), cell = entry?.cells[run];
      return cell?.data ? entry.plot.read(cell.data, timeOfX(x), x, y, cell) : null;
    },
    place: (key, run, time_ns) => {  // of a time in a picture: px of the page's window
      const box = plots.find((one) => one.plot.key === key).cells[run].canvas.getBoundingClientRect();
      return { x: box.left + (xOfTime(time_ns) / axis.width) * box.width, y: box.top + box.height / 2 };
    },
    // draw every picture now: ms that each took
    draw: () => Object.fromEntries(plots.map((entry) => {
      const begin = performance.now();
      drawPlot(entry);
      return [entry.plot.key, performance.now() - begin];
    })),
  });
}
