// SPDX-License-Identifier: BSD-2-Clause
// The window as fields: start and end typed in seconds, buttons for whole run, zoom and back, and what is in it as text.

const SPOKEN_AFTER_MS = 400;  // the window is read out when it has been still so long
const MOST_BACK = 100;
const summary = { past: [], restoring: false, spoken: 0 };

const inSeconds = (ns) => String(Number((ns / 1e9).toFixed(6)));

function makeSummary(place) {
  const field = (name) => element("input", {
    type: "number", step: "any", id: `window-${name}`, autocomplete: "off", onchange: takeFields, "aria-describedby": "window-trouble",
  });
  summary.start = field("start");
  summary.end = field("end");
  summary.text = element("p", { id: "window-text" });
  summary.live = element("p", { class: "unseen", "aria-live": "polite", id: "window-live" });
  summary.trouble = element("p", { id: "window-trouble", class: "trouble", role: "alert" });
  summary.zoom = button("Zoom to window", () => setView(windowNow().start_ns, windowNow().end_ns), { id: "window-zoom" });
  summary.back = button("Back", goBack, { id: "window-back", title: "the window and the zoom before" });
  summary.clear = button("Whole run", showWhole, { id: "window-whole" });
  place.append(element("div", { class: "window-fields", role: "group", "aria-label": "window" },
    element("label", {}, "Window from ", summary.start, " s"), element("label", {}, "to ", summary.end, " s"),
    summary.clear, summary.zoom, summary.back),
  summary.text, summary.trouble, summary.live);
  on("brush", showWindow);
  on("view", remember);
  summary.past.push(situation());
  showWindow();
}

function showWindow() {
  const now = windowNow();
  summary.start.value = inSeconds(now.start_ns);
  summary.end.value = inSeconds(now.end_ns);
  for (const field of [summary.start, summary.end]) field.removeAttribute("aria-invalid");
  summary.trouble.textContent = "";
  const of = nsText(whole.end_ns - whole.start_ns);
  summary.text.textContent = brush === null
    ? `Nothing is selected: all ${of} are shown. Drag over a picture, or type a window.`
    : `${windowText(now)}: ${nsText(now.end_ns - now.start_ns)} of ${of}.${marksText(now)}`;
  clearTimeout(summary.spoken);
  summary.spoken = setTimeout(() => { summary.live.textContent = summary.text.textContent; }, SPOKEN_AFTER_MS);
  remember();
}

function marksText(now) {
  const found = runs.map((run) => marksIn(run, now).filter((mark) => mark.kind === "finding").length).reduce((a, b) => a + b, 0);
  return found ? ` ${found} ${found === 1 ? "finding has" : "findings have"} time in it.` : "";
}

function takeFields() {
  const [start, end] = [summary.start, summary.end].map((field) => (field.value.trim() === "" ? NaN : Number(field.value)));
  const wrong = !Number.isFinite(start) || !Number.isFinite(end) ? "start and end are seconds, such as 1.25"
    : !(end > start) ? "the end must be later than the start"
      : end * 1e9 <= whole.start_ns || start * 1e9 >= whole.end_ns
        ? `the window lies outside the recorded time: ${inSeconds(whole.start_ns)} s to ${inSeconds(whole.end_ns)} s` : "";
  if (wrong) {
    summary.trouble.textContent = wrong;
    for (const field of [summary.start, summary.end]) field.setAttribute("aria-invalid", "true");
    return;
  }
  setBrush(start * 1e9, end * 1e9);
}

function showWhole() {
  setBrush(null);
  setView(whole.start_ns, whole.end_ns);
}

// --- back -------------------------------------------------------------------------------------------------------

const situation = () => JSON.stringify([view, brush]);

// The situation is kept when it has been still: a drag is one step back, not hundreds.
function remember() {
  if (summary.restoring) return;
  clearTimeout(summary.keeping);
  summary.keeping = setTimeout(keepSituation, SPOKEN_AFTER_MS);
}

function keepSituation() {
  if (summary.past.at(-1) === situation()) return;
  summary.past.push(situation());
  if (summary.past.length > MOST_BACK) summary.past.shift();
}

function goBack() {
  clearTimeout(summary.keeping);
  keepSituation();
  if (summary.past.length < 2) return;
  summary.past.pop();
  const [oldView, oldBrush] = JSON.parse(summary.past.at(-1));
  summary.restoring = true;
  setBrush(oldBrush ? oldBrush.start_ns : null, oldBrush ? oldBrush.end_ns : null);
  setView(oldView.start_ns, oldView.end_ns);
  summary.restoring = false;
}
