// SPDX-License-Identifier: BSD-2-Clause
// Controls: play, pause, step, speed; the time is set by slider, mouse or address. main() starts the page.

const control = (name) => document.getElementById(name);

function show(time) {
  state.time = Math.max(movie.start_s, Math.min(movie.end_s, time));
  state.frame = frameAt(state.time);
  control("time").value = state.frame;
  control("time").setAttribute("aria-valuetext", `${startOf(state.frame).toFixed(movie.decimals)} seconds`);
  draw();
}

function play(on) {
  state.playing = on;
  control("play").textContent = on ? "Pause" : "Play";
  if (!on) return;
  if (state.frame === movie.frames - 1) state.time = movie.start_s;
  let before = performance.now();
  const tick = (now) => {
    if (!state.playing) return;
    const time = state.time + ((now - before) / 1000) * Number(control("speed").value);
    before = now;
    if (time >= movie.end_s) {
      show(movie.end_s);
      play(false);
      return;
    }
    show(time);
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}

const step = (frames_) => {
  play(false);
  show(startOf(Math.max(0, Math.min(movie.frames - 1, state.frame + frames_))) + movie.frame_s / 4);
};

function savePicture() {
  canvas.toBlob((picture) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(picture);
    link.download = `movie-${startOf(state.frame).toFixed(movie.decimals)}s.png`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
}

// #t=12.5 in the address: stop at 12.5 s
function fromHash() {
  const match = /^#t=(-?[0-9.]+)$/.exec(window.location.hash);
  if (match) {
    play(false);
    show(Number(match[1]));
  }
  return match !== null;
}

function at(event) {
  const box = canvas.getBoundingClientRect();
  return [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * layout.height];
}

function listen() {
  control("time").max = movie.frames - 1;
  control("time").oninput = (event) => { play(false); show(startOf(Number(event.target.value)) + movie.frame_s / 4); };
  control("play").onclick = () => play(!state.playing);
  control("back").onclick = () => step(-1);
  control("on").onclick = () => step(1);
  control("save").onclick = savePicture;
  document.onkeydown = (event) => {
    const to = { " ": () => play(!state.playing), ArrowLeft: () => step(-1), ArrowRight: () => step(1) }[event.key];
    if (!to || ["SELECT", "INPUT", "BUTTON"].includes(event.target.tagName)) return;
    event.preventDefault();
    to();
  };
  const seek = (event) => {
    const [x, y] = at(event);
    if (y >= layout.strip && event.buttons) {
      play(false);
      show(movie.start_s + ((x - LEFT) / gridWidth) * span);
    }
  };
  canvas.onmousedown = seek;
  canvas.onmousemove = (event) => { state.pointer = at(event); seek(event); if (!state.playing) draw(); };
  canvas.onmouseleave = () => { state.pointer = null; if (!state.playing) draw(); };
  window.onhashchange = fromHash;
}

async function main() {
  try {
    frames = await unpack();
  } catch (error) {
    document.getElementById("trouble").textContent =
      typeof DecompressionStream === "undefined" ? "This browser is too old for this page: it needs DecompressionStream." : String(error);
    return;
  }
  place();
  canvas.style.width = width + "px";
  listen();
  if (fromHash()) return;
  show(movie.start_s);
  play(!window.matchMedia("(prefers-reduced-motion: reduce)").matches);
}

main();
