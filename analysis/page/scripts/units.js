// SPDX-License-Identifier: BSD-2-Clause
// Numbers with units, as analysis/units.py writes them: decimal prefixes, three significant digits.

const LARGE = [["EB", 1e18], ["PB", 1e15], ["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]];

function figures(value, digits = 3) {
  if (!Number.isFinite(value)) return "-";
  if (value === 0) return "0";
  const places = Math.max(0, Math.min(6, digits - 1 - Math.floor(Math.log10(Math.abs(value)))));
  const text = value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
  return /[1-9]/.test(text) ? text : "0";
}

const countText = (value) => Number.isFinite(value) ? value.toLocaleString("en-US", { maximumFractionDigits: 0 }) : "-";

function bytesText(value) {
  for (const [unit, factor] of LARGE)
    if (Math.abs(value) >= factor * 0.9995) return `${figures(value / factor)} ${unit}`;
  return Number.isInteger(value) ? `${countText(value)} B` : `${figures(value)} B`;
}

function nsText(value) {
  for (const [unit, factor] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]])
    if (Math.abs(value) >= factor * 0.9995) return `${figures(value / factor)} ${unit}`;
  return `${Number.isInteger(value) ? countText(value) : figures(value)} ns`;
}

// A figure with the unit of a Value or a Panel: "count", "bytes", "ns", "bytes/s", or any other as it is.
function withUnit(value, unit) {
  if (value === null || !Number.isFinite(value)) return "-";
  if (unit === "count") return Number.isInteger(value) ? countText(value) : figures(value);
  if (unit === "bytes") return bytesText(value);
  if (unit === "ns") return nsText(value);
  if (unit === "count/s") return `${figures(value)}/s`;
  if (unit === "bytes/s") return `${bytesText(value)}/s`;
  return `${figures(value)} ${unit}`;
}

// Seconds with as many decimals as tell times apart that are `step_ns` from one another; at most 6: microseconds.
function secondsText(ns, step_ns = 1e6) {
  const places = Math.max(0, Math.min(6, Math.ceil(9 - Math.log10(Math.max(step_ns, 1)))));
  return (ns / 1e9).toFixed(places);
}
