// SPDX-License-Identifier: BSD-2-Clause
// The findings, phases, commits and dips that have time in the window, each with a button that goes to its own window.

const MARKS_FIRST = 8;
const MARKS_SHOWN = 200;
const KIND_ORDER = ["finding", "dip", "phase", "stop"];  // the others after them

const marksIn = (run, now) => run.marks.filter((mark) => mark.start_ns < now.end_ns && Math.max(mark.end_ns, mark.start_ns + 1) > now.start_ns);

function makeFindings(place) {
  if (!runs.some((run) => run.marks.length)) return;
  const body = element("tbody"), text = element("p", { class: "live-window" });
  const section = element("section", { class: "live-block", id: "live-marks", "aria-label": "Findings and events in the window" },
    element("h3", {}, "Findings and events in the window"), text,
    element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Findings and events" }, element("table", {},
      element("thead", {}, element("tr", {}, ...["what", ...(runs.length > 1 ? ["run"] : []), "name"].map((head) => element("th", { class: "left", scope: "col" }, head)),
        element("th", { scope: "col" }, "from"), element("th", { scope: "col" }, "to"), element("th", { scope: "col" }, ""))),
      body)));
  let all = false;
  const more = button("", () => { all = !all; invalidate([block]); }, { class: "more" });
  section.append(more);
  place.append(section);
  const place_ = (kind) => (KIND_ORDER.includes(kind) ? KIND_ORDER.indexOf(kind) : KIND_ORDER.length);
  const block = follow(section, (now) => {
    const found = runs.flatMap((run) => marksIn(run, now).filter((mark) => matchesSearch(`${mark.name} ${mark.text}`)).map((mark) => ({ run, mark })));
    found.sort((a, b) => place_(a.mark.kind) - place_(b.mark.kind) || a.mark.number - b.mark.number || a.mark.start_ns - b.mark.start_ns);
    const counts = new Map();
    for (const { mark } of found) counts.set(mark.kind, (counts.get(mark.kind) ?? 0) + 1);
    text.textContent = found.length ? `${[...counts].map(([kind, count]) => `${kind}: ${countText(count)}`).join(", ")}.` +
      (found.length > MARKS_SHOWN ? ` At most ${MARKS_SHOWN} are listed.` : "") : "none in this window";
    more.hidden = found.length <= MARKS_FIRST;
    more.textContent = all ? `show the first ${MARKS_FIRST}` : `show all ${countText(Math.min(found.length, MARKS_SHOWN))}`;
    body.replaceChildren(...found.slice(0, all ? MARKS_SHOWN : MARKS_FIRST).map(({ run, mark }) => markRow(run, mark)));
    tellFound("findings and events", search.text === "" ? 0 : found.length);
  });
}

function markRow(run, mark) {
  const answered = mark.kind === "finding" && runs.length === 1 && document.getElementById(`finding-${mark.number}`);
  const what = mark.kind === "finding" && mark.number ? `finding ${mark.number}` : mark.kind;
  const edge = (ns) => element("td", { title: `${inSeconds(ns)} s` }, `${secondsText(ns, Math.max((mark.end_ns - mark.start_ns) / 100, 1000))} s`);
  return element("tr", { "data-kind": mark.kind },
    element("td", { class: "left" }, answered ? element("a", { href: `#finding-${mark.number}`, onclick: goToFinding }, what) : foreign(what)),
    ...(runs.length > 1 ? [nameCell(run.tag)] : []),
    element("td", { class: "left wide" }, foreign(mark.name), mark.text && mark.text !== mark.name ? element("span", { class: "quiet" }, " ", foreign(mark.text)) : ""),
    edge(mark.start_ns), edge(mark.end_ns),
    element("td", {}, button("show", () => goToMark(mark), { "aria-label": `show the window of ${what} ${mark.name}` })));
}

// A button at each finding of the answer whose window is not about all of the run.
const MOST_SHARE = 0.9;

function linkFindings() {
  if (runs.length > 1) return;
  for (const mark of runs[0].marks) {
    const finding = mark.kind === "finding" ? document.getElementById(`finding-${mark.number}`) : null;
    if (finding === null || mark.end_ns - mark.start_ns > MOST_SHARE * (whole.end_ns - whole.start_ns)) continue;
    const place = finding.querySelector(".sure") ?? finding.lastChild;
    place.after(" ", button("show its window", () => {
      goToMark(mark);
      document.getElementById("live").scrollIntoView();
    }, { class: "more", "aria-label": `show the window of finding ${mark.number}` }));
  }
}

function goToMark(mark) {
  setBrush(mark.start_ns, mark.end_ns);
  const margin = (brush.end_ns - brush.start_ns) / 2;
  setView(brush.start_ns - margin, brush.end_ns + margin);
}

// The address keeps the window, so the link does not become the address.
function goToFinding(event) {
  event.preventDefault();
  const finding = document.getElementById(event.currentTarget.getAttribute("href").slice(1));
  finding.tabIndex = -1;
  finding.scrollIntoView({ block: "center" });
  finding.focus();
}
