// SPDX-License-Identifier: BSD-2-Clause
// Unpack the frames that analysis/figures/movie.py packed, and check their sums. The files of this folder and
// analysis/page/scripts/inflate.js become one script, in the order frames, inflate, pen, grid, times, controls; nothing is fetched.
"use strict";

const movie = JSON.parse(document.getElementById("movie").textContent);
const state = { frame: 0, time: movie.start_s, playing: false, pointer: null };
let frames;  // what unpack() returns

// --- numbers with units, as in the report ------------------------------------------------------------------

function figures(value) {
  if (value === 0) return "0";
  const places = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
}

function bytesWithUnit(value) {
  for (const [unit, factor] of [["EB", 1e18], ["PB", 1e15], ["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
    if (value >= factor * 0.9995) return figures(value / factor) + " " + unit;
  return value + " B";
}

const count = (value) => value.toLocaleString("en-US");

// --- the frames -------------------------------------------------------------------------------------------

// Four columns, one after the other: the number of entries per frame; then per entry its key (kind * cells + cell)
// minus the key before it in its frame, its requests, its bytes. Numbers are LEB128: 7 bits a byte, lowest first,
// the top bit set on all but the last byte.
async function unpack() {
  const raw = await inflate(movie.packed);
  let at = 0;
  const number = () => {
    let value = 0, factor = 1, byte;
    do {
      byte = raw[at++];
      value += (byte & 127) * factor;  // not shifted: sums of bytes exceed 32 bits
      factor *= 128;
    } while (byte & 128);
    return value;
  };
  const first = new Uint32Array(movie.frames + 1);
  for (let i = 0; i < movie.frames; i++) first[i + 1] = first[i] + number();
  const entries = first[movie.frames];
  const kind = new Uint8Array(entries), cell = new Uint32Array(entries);
  const requests = new Uint32Array(entries), bytes = new Float64Array(entries);
  for (let i = 0; i < movie.frames; i++)
    for (let j = first[i], key = 0; j < first[i + 1]; j++) {
      key += number();
      kind[j] = Math.floor(key / movie.cells);
      cell[j] = key % movie.cells;
    }
  for (let j = 0; j < entries; j++) requests[j] = number();
  for (let j = 0; j < entries; j++) bytes[j] = number();
  const unpacked = { first, kind, cell, requests, bytes, ...summed(first, kind, cell, requests, bytes) };
  unpacked.kinds.forEach((sums, k) => {
    if (sums.requests !== movie.totals[k][0] || sums.bytes !== movie.totals[k][1])
      throw new Error("the frames do not add up to the run's totals: this file is damaged");
  });
  return unpacked;
}

function summed(first, kind, cell, requests, bytes) {
  const kinds = movie.kinds.map(() => ({ requests: 0, bytes: 0 }));
  const cells = Array.from({ length: movie.cells }, () => ({ requests: 0, bytes: 0, firstFrame: movie.frames }));
  const written = new Float64Array(movie.frames), read = new Float64Array(movie.frames);
  let low = Infinity, high = 0;
  for (let i = 0; i < movie.frames; i++)
    for (let j = first[i]; j < first[i + 1]; j++) {
      for (const sums of [kinds[kind[j]], cells[cell[j]]]) {
        sums.requests += requests[j];
        sums.bytes += bytes[j];
      }
      cells[cell[j]].firstFrame = Math.min(cells[cell[j]].firstFrame, i);
      const op = movie.kinds[kind[j]].op;
      if (op === "write") written[i] += bytes[j];
      if (op === "read") read[i] += bytes[j];
      low = Math.min(low, bytes[j]);
      high = Math.max(high, bytes[j]);
    }
  return { kinds, cells, written, read, low, high };
}

const lengthOf = (frame) => (frame === movie.frames - 1 ? movie.last_frame_s : movie.frame_s);
const startOf = (frame) => movie.start_s + frame * movie.frame_s;
const frameAt = (time) => Math.max(0, Math.min(movie.frames - 1, Math.floor((time - movie.start_s) / movie.frame_s + 1e-9)));
