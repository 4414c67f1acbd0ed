// SPDX-License-Identifier: BSD-2-Clause
// Panels of lines and of stacked bands. A column of pixels shows the mean of its bins, or all samples from the lowest to
// the highest; a value is read at the pointer from the same columns.

const HEADROOM = 1.04;  // above the highest value

function seriesPlot(panel) {
  const stacked = panel.kind === "stacked";
  return {
    key: panel.key,
    height: () => panel.height_px,
    load: (run, own) => readSeries(run, own),
    scale: (data) => (stacked ? stackRange : lineRange)(data.series, data.panel.series),
    draw: (pen, box, data, range) => {
      drawValueAxis(pen, box, range, panel.unit);
      clipToPlot(pen, box);
      if (stacked) drawStack(pen, box, data, range);
      else drawSeriesLines(pen, box, data, range);
    },
    read: (data, time) => readSeriesAt(data, time, panel.unit),
    legend: () => panel.series.map((one) => ({ ...one, area: stacked })),
  };
}

const signOf = (one) => (one.down ? -1 : 1);

// The lowest and the highest value in view. The columns are kept for drawing and for the pointer.
function lineRange(series, of) {
  const range = { low: 0, high: 0 };
  series.forEach((one, i) => {
    if (one === null) return;
    one.shown = inView(one);
    for (const values of [one.shown.low, one.shown.high]) for (const value of values) widen(range, signOf(of[i]) * value);
  });
  return range;
}

function widen(range, value) {
  if (value > range.high) range.high = value;
  if (value < range.low) range.low = value;
}

// All bands of a stack have the columns of its first: sums of bands need one time.
function stackRange(series, of) {
  const first = series.find((one) => one !== null), range = { low: 0, high: 0 };
  if (!first) return range;
  const at = inView(first).at, up = new Float64Array(Math.max(0, at.length - 1)), down = new Float64Array(up.length);
  series.forEach((one, i) => {
    if (one === null) return;
    one.shown = inView(one, at);
    const sums = of[i].down ? down : up;
    one.base = Float64Array.from(sums);
    one.shown.values.forEach((value, c) => { if (value > 0) sums[c] += value; });
    one.top = Float64Array.from(sums);
  });
  up.forEach((value) => widen(range, value));
  down.forEach((value) => widen(range, -value));
  return range;
}

const yOfValue = (box, range, value) => box.top + box.height * (1 - (value - range.low) / (range.high - range.low));

function drawValueAxis(pen, box, range, unit) {
  if (range.high === range.low) range.high = range.low + 1;
  range.high *= HEADROOM;
  range.low *= HEADROOM;
  const step = niceStep(range.high - range.low, Math.max(2, Math.floor(box.height / 30)));
  for (let i = Math.ceil(range.low / step - 1e-9); i * step <= range.high * (1 + 1e-9); i++) {
    const y = sharp(yOfValue(box, range, i * step) - 0.5);
    penLine(pen, axis.left, y, axis.left + plotWidth(), y, i === 0 ? paper().edge : paper().line);
    penText(pen, axisText(Math.abs(i * step), unit), axis.left - 6, y, { align: "right", size: 10.5, room: axis.left - 8 });
  }
}

// A figure at an axis: withUnit() without zeros that say nothing. A unit that has no prefixes stands in the title only.
function axisText(value, unit) {
  if (!["bytes", "bytes/s", "ns"].includes(unit)) return Number(value.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 6 });
  return withUnit(Number(value.toPrecision(6)), unit).replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}

function drawSeriesLines(pen, box, data, range) {
  data.series.forEach((one, k) => {
    if (one === null) return;
    const style = data.panel.series[k], color = colorOf(style), sign = signOf(style);
    const { at, values, low, high } = one.shown, y = (value) => yOfValue(box, range, sign * value);
    pen.strokeStyle = color;
    pen.lineWidth = style.width ?? 1.4;
    pen.setLineDash(style.dash ?? []);
    pen.beginPath();
    let open = false;
    for (let i = 0; i < values.length; i++) {
      if (Number.isNaN(values[i])) {
        open = false;
        continue;
      }
      const x = xOfTime(at[i]), height = y(values[i]);
      if (open) pen.lineTo(x, height);
      else pen.moveTo(x, height);
      open = true;
      if (high[i] > low[i]) {
        pen.moveTo(x, y(low[i]));
        pen.lineTo(x, y(high[i]));
        pen.moveTo(x, height);
      }
      pen.lineTo(xOfTime(at[i + 1]), height);
    }
    pen.stroke();
    pen.setLineDash([]);
  });
}

function drawStack(pen, box, data, range) {
  data.series.forEach((one, k) => {
    if (one === null) return;
    const style = data.panel.series[k], sign = signOf(style), { at, values } = one.shown;
    const y = (value) => yOfValue(box, range, sign * value);
    if (!values.some((value) => value > 0)) return;
    pen.fillStyle = hatched(pen, colorOf(style), style.hatch);
    pen.beginPath();
    pen.moveTo(xOfTime(at[0]), y(one.base[0]));
    for (let i = 0; i < values.length; i++) {
      pen.lineTo(xOfTime(at[i]), y(one.top[i]));
      pen.lineTo(xOfTime(at[i + 1]), y(one.top[i]));
    }
    for (let i = values.length - 1; i >= 0; i--) {
      pen.lineTo(xOfTime(at[i + 1]), y(one.base[i]));
      pen.lineTo(xOfTime(at[i]), y(one.base[i]));
    }
    pen.fill();
  });
}

function readSeriesAt(data, time, unit) {
  const rows = [], lengths = [];
  data.series.forEach((one, k) => {
    if (one === null || !one.shown) return;
    const style = data.panel.series[k], i = columnAt(one.shown.at, time);
    if (i < 0 || Number.isNaN(one.shown.values[i])) return;
    const { low, high, values } = one.shown;
    const spread = high[i] > low[i] ? ` (${withUnit(low[i], unit)} to ${withUnit(high[i], unit)})` : "";
    rows.push({ color: colorOf(style), name: style.name, value: withUnit(values[i], unit) + spread });
    if (!one.t) lengths.push(one.shown.at[i + 1] - one.shown.at[i]);
  });
  return { rows, notes: lengths.length ? [`over ${nsText(Math.min(...lengths))}`] : [] };
}
