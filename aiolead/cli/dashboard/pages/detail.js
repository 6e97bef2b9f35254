// One path: its holders, its terms on a timeline, its contenders, its events.

import { $, age, clock, copier, cuttable, duration, foreign, keyed, lasted, make, now, plural, say, set, showState,
  time }
  from "./elements.js";
import { colour, layOut, overlaps, ticks } from "./timeline.js";

const HOLDS = { election: "leads", semaphore: "has a permit" };
const NOBODY = { election: "Nobody leads", semaphore: "Nobody has a permit" };
const LEAST = 0.01; // the shortest time that the timeline shows, in seconds
const EVERY = 5000; // contenders may lose their connections without a change of the path

let key = null;
let row = null; // as the table has it
let known = null; // what was fetched
let view = { span: 300 }; // the last so many seconds, or a fixed {from, to}
let drag = null; // where the selection began, in seconds since 1970
let fetched = 0;

export const shown = () => key;

/** Opens a path, or with null closes it. */
export function open(wanted) {
  key = wanted;
  row = known = null;
  view = { span: Number($("span").value) };
  $("contenders-list").replaceChildren();
  for (const name of ["terms", "things", "things-head"]) $(name).replaceChildren();
}

/** The row has changed, or is gone. */
export function take(news) {
  const isNew = news !== row;
  row = news;
  if (row && (isNew || performance.now() - fetched > EVERY)) load();
  draw();
}

async function load() {
  const asked = key;
  fetched = performance.now();
  try {
    const answer = await fetch(`queue?key=${encodeURIComponent(asked)}`);
    const found = answer.ok ? await answer.json() : null;
    if (asked === key && found) {
      known = found;
      draw();
    }
  } catch {
    fetched = 0; // the page says itself that nobody answers
  }
}

export function draw() {
  if (key === null) return;
  $("detail-missing").hidden = row !== null;
  $("detail-body").hidden = row === null;
  if (row === null) return say($("detail-path"), "Not found");
  const path = known?.path ?? row.path; // rows have long paths cut
  say($("detail-path"), path);
  if ($("detail-copy").dataset.path !== path) {
    $("detail-copy").replaceChildren(make("span", "unseen", path), copier(path, "the path"));
    $("detail-copy").dataset.path = path;
  }
  const isQueue = row.state !== "in use"; // else it has members, but no terms
  $("detail-body").classList.toggle("is-other", !isQueue);
  showState($("detail-state"), row.state);
  const permits = row.type === "semaphore" && `${plural(row.holders.length + row.more_holders, "permit")} held`;
  say($("detail-type"), [row.type || "nobody has contended here yet", permits, row.note].filter(Boolean).join(" · "));
  $("detail-families").hidden = !row.families.length;
  say($("detail-families"), `Not all of these exclude each other: ${row.families.join(", ")}.`);
  const holders = known?.holders ?? row.holders;
  keyed($("holders"), holders, (one) => one.key, () => make("li"), showHolder);
  const nobody = NOBODY[row.type] ?? "Nobody holds it";
  $("nobody").hidden = holders.length > 0;
  say($("nobody"), row.vacant_since === null ? `${nobody}.`
    : `${nobody}, for ${age(now() - row.vacant_since)}, since ${clock(row.vacant_since)} UTC.`);
  if (isQueue) drawTimeline();
  if (known === null) return;
  const waiting = known.waiting.length + known.more_waiting;
  say($("waiting-title"), !isQueue ? waiting ? plural(waiting, "member") : "" : waiting ? `${plural(waiting, "contender")} waiting` : "Nobody is waiting");
  $("waiting-title").parentElement.hidden = !isQueue && !waiting;
  keyed($("contenders-list"), known.waiting, (one) => one.key, () => make("li"), showWaiter);
  $("waiting-more").hidden = !known.more_waiting;
  say($("waiting-more"), `And ${known.more_waiting} more.`);
  const terms = [...known.terms].reverse();
  say($("terms-title"), plural(terms.length, "term"));
  keyed($("terms"), terms, (one) => one.key, () => createLine(6), showTerm);
  showEvents($("detail-events"), known.events, false);
  $("detail-events-none").hidden = known.events.length > 0;
  showSeries();
  showThings();
  keyed($("commands"), known.commands, (text) => text, (text) => {
    const item = make("li");
    item.append(make("code", "", text), copier(text, `the command ${text}`));
    return item;
  }, () => {});
}

/** What a contender is known by elsewhere: in the servers' logs, on the network, in the tree. */
function showFacts(list, one) {
  const facts = Object.entries({ session: one.session, address: one.address, znode: one.znode });
  keyed(list, facts.filter(([, value]) => value), ([name, value]) => `${name} ${value}`, ([name, value]) => {
    const fact = make("li");
    fact.append(make("span", "soft", `${name} `), make("code", "", value), copier(value, `the ${name}`));
    return fact;
  }, () => {});
}

const counted = (count) =>
  known.counted.endsWith("s") ? plural(count, known.counted.slice(0, -1)) : `${count} ${known.counted}`;
const HOUR = 3600, STEP = 60, HEIGHT = 44;

/** The last hour: hand-overs as bars, and how many waited as a line. */
function showSeries() {
  document.querySelector(".series").hidden = !known.counted;
  if (!known.counted) return;
  const series = known.series ?? [], last = Math.ceil(now() / STEP) * STEP, from = last - HOUR;
  const counts = []; // the most in each minute; null before anything is known
  let count = null, next = 0;
  for (let at = from; at < last; at += STEP) {
    let most = count;
    for (; next < series.length && series[next][0] < at + STEP; next++) {
      if (series[next][0] >= at) most = Math.max(most ?? 0, series[next][1]);
      count = series[next][2];
      most ??= count;
    }
    counts.push(most);
  }
  const most = Math.max(1, ...counts), width = 600 / counts.length;
  const line = counts.map((each, n) => (each === null ? ""
    : `${n && counts[n - 1] !== null ? "L" : "M"}${n * width} ${HEIGHT - 1 - (each / most) * (HEIGHT - 6)}h${width}`));
  set($("series-line"), "d", line.join(""));
  const bars = row.handovers.map(([bucket, number]) => [bucket * 120 - from, number]).filter(([at]) => at >= 0);
  const highest = Math.max(1, ...bars.map(([, number]) => number));
  set($("series-bars"), "d", bars.map(([at, number]) => {
    const size = Math.max(3, ((HEIGHT - 6) * number) / highest);
    return `M${(at / HOUR) * 600} ${HEIGHT}v-${size}h${width * 2 - 1}v${size}z`;
  }).join(""));
  const handovers = bars.reduce((sum, [, number]) => sum + number, 0);
  say($("series-title"), `Last hour: ${row.state === "in use" ? "" : `${plural(handovers, "hand-over")} (bars), `}` +
    `at most ${counted(Math.max(0, ...counts))}, now ${count ?? 0}`);
}

/** What a recipe has: items, keys, versions, or the numbers of a rate limit. */
function showThings() {
  const { things } = known;
  document.querySelector(".things").hidden = !things;
  if (!things) return;
  say($("things-title"), things.title + (things.oldest === null ? "" : `, the oldest for ${age(now() - things.oldest)}`));
  keyed($("things-head"), things.columns, (name) => name, (name) => {
    const head = make("th", "", name);
    head.scope = "col";
    return head;
  }, () => {});
  keyed($("things"), things.rows, (one) => one.key, (one) => {
    const line = make("tr");
    for (const _ of one.cells) line.append(make("td")), line.lastElementChild.append(foreign(""));
    return line;
  }, (line, one) => one.cells.forEach((cell, n) => say(line.children[n].firstElementChild, textOf(cell))));
  $("things-more").hidden = !things.more;
  say($("things-more"), `And ${things.more} more.`);
}

function textOf(cell) {
  if (typeof cell === "string") return cell;
  if ("age" in cell) return age(now() - cell.age);
  if (!("level" in cell)) return clock(cell.at);
  const level = Math.min(cell.most, cell.level + (now() - cell.at) * cell.speed);
  return level < 1 ? `none, the next one in ${duration((1 - level) / cell.speed)}` : `${Math.floor(level)} of ${cell.most}`;
}

function parts(element, count) {
  while (element.childElementCount < count) {
    element.append(element.childElementCount ? make("span") : foreign(""));
  }
  return element.children;
}

function showHolder(item, one) {
  const [name, what, soft, warn] = parts(item, 4);
  say(name, one.name);
  say(what, ` ${HOLDS[row.type] ?? "holds"}, for ${lasted(one)}`);
  say(soft, ["", `since ${clock(one.not_before)} UTC`, `token ${one.token}`, ...(one.notes ?? [])].join(" · "), "soft");
  const wrong = [];
  if (one.silent_since !== null) {
    wrong.push(`${one.is_paused ? "connected, but silent (stopped?)" : "no connection"} for ${age(now() - one.silent_since)}`);
  }
  if (one.connection === "none") wrong.push("belongs to no session: it stays until it is deleted");
  say(warn, wrong.map((text) => ` · ${text}`).join(""), "warn");
  showFacts(factsIn(item), one);
}

function factsIn(item) {
  if (item.lastElementChild?.tagName !== "UL") item.append(make("ul", "facts"));
  return item.lastElementChild;
}

function showWaiter(item, one) {
  const [name, soft, warn] = parts(item, 3);
  say(name, one.name);
  const what = ["reader", "writer"].includes(one.what) ? `${one.what}, ` : "";
  say(soft, [` ${what}${one.since === null ? "" : age(now() - one.since)}`, ...(one.notes ?? [])].join(" · "), "soft");
  const wrong = [];
  if (one.connection === "silent") wrong.push("has no connection");
  if (one.connection === "paused") wrong.push("is silent (stopped?)");
  if (one.connection === "none") wrong.push("belongs to no session");
  say(warn, wrong.map((text) => ` · ${text}`).join(""), "warn");
  if (!item.title) item.title = one.znode ?? "";
  say(factsOf(item), [one.session, one.address].filter(Boolean).join(" · "), "soft facts-of");
}

function factsOf(item) {
  if (item.lastElementChild?.tagName !== "DIV") item.append(make("div"));
  return item.lastElementChild;
}

function createLine(count) {
  const line = make("tr");
  for (let n = 0; n < count; n++) line.append(make("td"));
  line.firstElementChild.append(foreign(""));
  return line;
}

function showTerm(line, term) {
  const [name, began, ended, lasting, gap, token] = line.children;
  say(name.firstElementChild, term.name);
  const unsure = term.not_before < term.began ? "after " : "";
  say(began, unsure + clock(term.not_before, { precise: true }));
  say(ended, term.ended === null ? "goes on" : clock(term.ended, { precise: true }));
  say(lasting, term.ended === null ? lasted(term)
    : `${unsure ? "≤ " : ""}${duration(term.ended - term.not_before)}`);
  say(gap, term.gap === null ? "" : duration(term.gap));
  say(token, term.token);
}

/** A list of events, the newest first. */
export function showEvents(list, events, isOfAll = true) {
  keyed(list, [...events].reverse(), (one) => String(one.number), (one) => {
    const item = make("li", `event is-${one.what}`);
    const text = make("span");
    if (isOfAll && one.key) {
      const link = make("a", "path");
      link.append(cuttable(one.path));
      link.href = `#/${one.key}`;
      text.append(link, " ");
    }
    text.append(foreign(one.text));
    item.append(time(one.at), text);
    return item;
  }, () => {});
}

// --- the timeline --------------------------------------------------------------------------------

function range() {
  if (view.span === undefined) return view;
  const to = now();
  if (view.span) return { from: to - view.span, to };
  const begin = Math.min(to - 10, ...(known?.terms ?? []).map((term) => term.not_before));
  return { from: begin, to };
}

function drawTimeline() {
  const { from, to } = range();
  const terms = known?.terms ?? row.holders;
  const { lanes, bars } = layOut(terms, from, to, row.vacant_since, now());
  const most = row.leaders ?? Infinity;
  const doubled = overlaps(terms, from, to, most, now());
  const track = $("track");
  track.style.height = `${lanes * 1.75}rem`;
  const drawn = [...bars, ...doubled];
  const name = (bar) => (bar.term ? `term ${bar.term.key}` : bar.gap ? `gap ${bar.begin}` : `over ${bar.begin}`);
  keyed(track, drawn, name, (bar) => {
    if (bar.term) return make("div", `bar term hold-${colour(bar.term.name)}`, bar.term.name);
    return make("div", `bar ${bar.gap ? "gap" : "overlap"}`);
  }, (box, bar) => {
    box.style.left = `${bar.left}%`;
    box.style.width = `${bar.width}%`;
    box.style.top = bar.count ? "0" : `${bar.lane * 1.75}rem`;
    if (bar.count) box.style.height = "100%";
    if (bar.term) say(box, bar.term.name);
    if (bar.term) box.classList.toggle("unsure", bar.term.not_before < bar.term.began);
  });
  track.classList.toggle("is-election", row.type === "election");
  const { marks, isPrecise } = ticks(from, to, track.clientWidth > 600 ? 8 : 3);
  keyed($("axis"), marks, String, (at) => make("span", "", clock(at, { precise: isPrecise })), (mark, at) => {
    const part = (at - from) / (to - from);
    mark.style.left = `${100 * part}%`;
    // One that would be cut at the end of the axis is left out.
    mark.classList.toggle("is-cut", part * track.clientWidth + mark.offsetWidth > track.clientWidth);
  });
  const gaps = bars.filter((bar) => bar.gap);
  const longest = Math.max(0, ...gaps.map((bar) => bar.gap));
  const count = bars.filter((bar) => bar.term).length;
  set($("timeline"), "aria-label", `Timeline. ${view.span === undefined ? `${duration(to - from)} from ${clock(from)} UTC`
    : `The last ${duration(to - from)}`}: ${plural(count, "term")}, ` +
    (gaps.length ? `${plural(gaps.length, "gap")} with nobody, the longest of ${duration(longest)}`
      : "no gap with nobody") +
    (doubled.length ? `, ${plural(doubled.length, "overlap")}` : "") + ". The table of terms has the same.");
  $("live").disabled = view.span !== undefined;
}

const timeAt = (event) => {
  const box = $("track").getBoundingClientRect();
  const { from, to } = range();
  return from + (Math.min(Math.max(0, event.clientX - box.left), box.width) / box.width) * (to - from);
};

/** Shows a part of the time; as long as that is not too short, nor in the future. */
function zoom(from, to) {
  const middle = (from + to) / 2, half = Math.max(LEAST, to - from) / 2;
  view = { from: middle - half, to: Math.min(middle + half, now() + half / 10) };
  draw();
}

function scale(factor) {
  const { from, to } = range();
  const middle = (from + to) / 2, half = ((to - from) * factor) / 2;
  zoom(middle - half, middle + half);
}

function shift(part) {
  const { from, to } = range();
  const by = (to - from) * part;
  if (to + by <= now() + (to - from) / 2) zoom(from + by, to + by);
}

function point(event) {
  if (row === null) return;
  const at = timeAt(event), tip = $("tip"), box = $("timeline").getBoundingClientRect();
  const { from, to } = range();
  const held = (known?.terms ?? []).filter((term) => term.not_before <= at && at < (term.ended ?? now()));
  const lines = held.map((term) => [term.name,
    `${clock(term.not_before, { precise: true })} – ${term.ended === null ? "goes on" : clock(term.ended, { precise: true })}` +
    ` · ${lasted(term)} · token ${term.token}`]);
  const gap = layOut(known?.terms ?? [], from, to, row.vacant_since, now()).bars
    .find((bar) => bar.gap && bar.begin <= at && at < bar.end);
  if (gap) lines.push(["Nobody", `${clock(gap.begin, { precise: true })} – ${clock(gap.end, { precise: true })} · ${duration(gap.gap)}`]);
  tip.replaceChildren(make("strong", "", `${clock(at, { precise: true })} UTC`));
  for (const [who, text] of lines) {
    const line = make("p");
    line.append(foreign(who), make("span", "soft", ` ${text}`));
    tip.append(line);
  }
  tip.hidden = false;
  const x = event.clientX - box.left;
  tip.style.left = `${Math.min(Math.max(0, x - tip.offsetWidth / 2), Math.max(0, box.width - tip.offsetWidth))}px`;
  $("cursor").hidden = false;
  $("cursor").style.left = `${x}px`;
}

export function start() {
  const timeline = $("timeline"), selection = $("selection");
  timeline.addEventListener("pointermove", (event) => {
    point(event);
    if (drag === null) return;
    const { from, to } = range();
    const at = timeAt(event), percent = (when) => (100 * (when - from)) / (to - from);
    selection.hidden = false;
    selection.style.left = `${percent(Math.min(drag, at))}%`;
    selection.style.width = `${Math.abs(percent(at) - percent(drag))}%`;
  });
  timeline.addEventListener("pointerdown", (event) => {
    if (event.button || row === null) return;
    view = { ...range() }; // it stands still while it is looked at
    drag = timeAt(event);
    timeline.setPointerCapture(event.pointerId);
  });
  timeline.addEventListener("pointerup", (event) => {
    const at = timeAt(event), begin = drag, { from, to } = range();
    drag = null;
    selection.hidden = true;
    if (begin !== null && Math.abs(at - begin) > (to - from) / 200) zoom(Math.min(begin, at), Math.max(begin, at));
    else live();
  });
  timeline.addEventListener("pointercancel", () => { drag = null; selection.hidden = true; });
  timeline.addEventListener("pointerleave", () => { $("tip").hidden = $("cursor").hidden = true; });
  timeline.addEventListener("keydown", (event) => {
    const does = { ArrowLeft: () => shift(-0.25), ArrowRight: () => shift(0.25), "+": () => scale(0.5),
      "=": () => scale(0.5), "-": () => scale(2), 0: live }[event.key];
    if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    does();
  });
  $("zoom-in").addEventListener("click", () => scale(0.5));
  $("zoom-out").addEventListener("click", () => scale(2));
  $("live").addEventListener("click", live);
  $("span").addEventListener("input", live);
}

/** Back to the time up to now. */
function live() {
  view = { span: Number($("span").value) };
  draw();
}
