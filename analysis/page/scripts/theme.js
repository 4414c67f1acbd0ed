// SPDX-License-Identifier: BSD-2-Clause
// Light or dark, and the colours of what the pictures draw themselves. On paper everything is light.

const PAPERS = {
  light: {
    ground: "#ffffff", ink: "#1a1a1a", quiet: "#5c5c5c", line: "#e4e4e4", edge: "#888888", alarm: "#a00000",
    bands: ["#eceff3", "#d9dfe7"], heat: ["#dfe6ee", "#7d93ab", "#132539"], outline: "rgba(0,0,0,.45)",
    marks: { finding: "#a00000", dip: "#b07a00", commit: "#4b2a84", stop: "#1a1a1a", other: "#5c5c5c" },
  },
  dark: {
    ground: "#15181c", ink: "#e8e8e8", quiet: "#a9b0b8", line: "#2c3138", edge: "#717a85", alarm: "#ff8a80",
    bands: ["#262c35", "#3a4452"], heat: ["#23303f", "#6d8cad", "#e4eefa"], outline: "rgba(0,0,0,.7)",
    marks: { finding: "#ff8a80", dip: "#e6b84d", commit: "#b79cf0", stop: "#e8e8e8", other: "#a9b0b8" },
  },
};
const theme = { name: "light", chosen: false, printing: false };

const paper = () => PAPERS[theme.printing ? "light" : theme.name];

// The one of a thing's two colours, { light, dark }, that suits the ground.
const colorOf = (pair) => (theme.printing ? pair.light : pair[theme.name]) ?? pair.light;

function setTheme(name) {
  theme.name = name;
  document.documentElement.dataset.theme = name;
  tell("theme", name);
}

function switchTheme() {
  theme.chosen = true;
  setTheme(theme.name === "dark" ? "light" : "dark");
}

// The reader's system chooses until a key or button does.
function startTheme() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => { if (!theme.chosen) setTheme(dark.matches ? "dark" : "light"); });
  setTheme(dark.matches ? "dark" : "light");
}

const rgbOf = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// The colour at `share` (0..1) of a ramp of RGB triples.
function onRamp(ramp, share) {
  const place = Math.max(0, Math.min(1, share)) * (ramp.length - 1), i = Math.min(Math.floor(place), ramp.length - 2);
  return ramp.length === 1 ? ramp[0] : ramp[i].map((from, k) => Math.round(from + (ramp[i + 1][k] - from) * (place - i)));
}

// Where a count is on a ramp from few to many: by its logarithm, so that one request is seen beside a million.
const shareOf = (count, most) => (most > 1 ? Math.log(Math.max(count, 1)) / Math.log(most) : 1);
