// SPDX-License-Identifier: BSD-2-Clause
// Make HTML elements. A text of a run becomes a text node, so it is never read as markup.

// attributes: "onclick" and the like are functions; true is an attribute without a value; false and null leave it out.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) continue;
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

const button = (text, onclick, attributes = {}) => element("button", { type: "button", onclick, ...attributes }, text);

// A text of a run. Its direction of writing has no effect on what stands beside it.
const foreign = (text) => element("bdi", {}, String(text));

// A figure as it is shown; its exact value stands in the tooltip and in data-value.
function figureCell(value, unit, attributes = {}) {
  const known = value !== null && Number.isFinite(value);
  const exact = known ? { title: `${exactText(value)} ${EXACT_UNIT[unit] ?? unit}`.trim(), "data-value": String(value) } : {};
  return element("td", { ...exact, ...attributes }, withUnit(value, unit));
}

const EXACT_UNIT = { count: "", "count/s": "/s", "bytes/s": "B/s", bytes: "B" };
const exactText = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 6 });

// A share 0..1 in percent, as the report writes it.
function percentText(share) {
  if (!Number.isFinite(share)) return "-";
  if (share > 0 && share < 0.001) return "<0.1 %";
  return `${(share * 100).toFixed(1)} %`;
}

// "1.200 s to 3.400 s": with as many decimals as the window needs, at most microseconds.
function windowText(window_) {
  const step_ns = (window_.end_ns - window_.start_ns) / 1000;
  return `${secondsText(window_.start_ns, step_ns)} s to ${secondsText(window_.end_ns, step_ns)} s`;
}
