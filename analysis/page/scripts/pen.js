// SPDX-License-Identifier: BSD-2-Clause
// How text, hatches and grid lines are drawn into a canvas. Text of a run is drawn as text.

const PEN_FONT = 'system-ui, "DejaVu Sans", sans-serif';

function fitted(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let shown = text;
  while (shown.length > 1 && pen.measureText(`${shown}…`).width > room) shown = shown.slice(0, -1);
  return pen.measureText(`${shown}…`).width > room ? "" : `${shown}…`;
}

function penText(pen, text, x, y, { size = 11, color = paper().quiet, bold = false, align = "left", room = Infinity } = {}) {
  pen.font = `${bold ? "600 " : ""}${size}px ${PEN_FONT}`;
  pen.fillStyle = color;
  pen.textAlign = align;
  pen.textBaseline = "middle";
  pen.fillText(room === Infinity ? text : fitted(pen, text, room), x, y);
}

function penLine(pen, x1, y1, x2, y2, color, width = 1, dash = []) {
  pen.strokeStyle = color;
  pen.lineWidth = width;
  pen.setLineDash(dash);
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
  pen.setLineDash([]);
}

// The middle of the pixel: a line of one pixel is sharp there.
const sharp = (value) => Math.round(value) + 0.5;

// The least of 1, 2 or 5 times a power of ten that divides a range into at most so many steps.
function niceStep(range, steps) {
  const power = 10 ** Math.floor(Math.log10(range / steps));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => range / step <= steps * (1 + 1e-9));
}

// The colour of the lines over an area: darker than a light one, lighter than a dark one.
function hatchInk(rgb) {
  const over = 0.3 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2] > 120 ? 0 : 255;
  return rgb.map((part) => Math.round((part + over) / 2));
}

// Whether a pixel belongs to the lines of a hatch, for pictures that are painted by pixel; y is counted upwards.
function isHatched(hatch, x, y) {
  const rising = (x - y + 6000) % 6 === 0, falling = (x + y) % 6 === 0;
  return { "/": rising, "\\": falling, "x": rising || falling, "-": y % 4 === 2, ".": x % 4 === 0 && y % 4 === 2 }[hatch[0]];
}

const hatchTiles = new Map();

// A pattern of a colour under lines, named as in the static pictures: "////", "xxxx", "....", "\\\\", "----".
function hatched(pen, color, hatch) {
  if (!hatch) return color;
  const name = color + hatch + paper().ground;
  if (!hatchTiles.has(name)) {
    const side = 6, tile = document.createElement("canvas");
    tile.width = tile.height = side;
    const drawn = tile.getContext("2d");
    drawn.fillStyle = color;
    drawn.fillRect(0, 0, side, side);
    drawn.strokeStyle = drawn.fillStyle = `rgb(${hatchInk(rgbOf(color)).join(",")})`;
    drawn.beginPath();
    if (hatch[0] === "/" || hatch[0] === "x") for (const at of [-side, 0, side]) { drawn.moveTo(at - 1, side + 1); drawn.lineTo(at + side + 1, -1); }
    if (hatch[0] === "\\" || hatch[0] === "x") for (const at of [-side, 0, side]) { drawn.moveTo(at - 1, -1); drawn.lineTo(at + side + 1, side + 1); }
    if (hatch[0] === "-") { drawn.moveTo(0, side / 2); drawn.lineTo(side, side / 2); }
    if (hatch[0] === ".") drawn.fillRect(side / 2 - 1, side / 2 - 1, 2, 2);
    drawn.stroke();
    hatchTiles.set(name, tile);
  }
  return pen.createPattern(hatchTiles.get(name), "repeat");
}

// Pixels of the device within the plot: paint(words, width, height, scale) sets those it wants, as inkWord() makes them.
function drawPixels(pen, box, paint) {
  const scale = box.scale, picture = document.createElement("canvas");
  picture.width = Math.ceil(plotWidth() * scale);
  picture.height = Math.ceil(box.height * scale);
  const drawn = picture.getContext("2d"), pixels = drawn.createImageData(picture.width, picture.height);
  paint(new Uint32Array(pixels.data.buffer), picture.width, picture.height, scale);
  drawn.putImageData(pixels, 0, 0);
  pen.drawImage(picture, axis.left, box.top, picture.width / scale, picture.height / scale);
}

const INKS = 64;
const inkWord = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

// The inks of a ramp of RGB triples from few (0) to many (INKS).
const inksOf = (ramp) => Uint32Array.from({ length: INKS + 1 }, (_, i) => inkWord(onRamp(ramp, i / INKS)));
