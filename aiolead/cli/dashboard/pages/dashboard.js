// Shows the state that the command sends. All that comes from it becomes text, never markup.

import { colour, layOut } from "./timeline.js";

const $ = (id) => document.getElementById(id);
const STALE = 15; // seconds without a word, not even that nothing is new
const HOLDS = { election: "leads", semaphore: "has a permit" };
const NOBODY = { election: "Nobody has led for ", semaphore: "Nobody has had a permit for " };

let state = null; // what was sent last
let shown = null; // what the page shows: the same, unless it is paused
let skew = 0; // how far the command's clock is ahead of ours, in seconds
let heard = 0; // when we heard of it last, by performance.now()
let isOpen = false;
let told = -1; // the number of the last happening that was read out

const isPaused = () => $("pause").getAttribute("aria-pressed") === "true";
const now = () => Date.now() / 1000 + skew;

// --- words ---------------------------------------------------------------------------------------

function duration(seconds) {
  const whole = Math.max(0, seconds);
  if (whole < 1) return `${Math.round(whole * 1000)} ms`;
  if (whole < 60) return `${whole.toFixed(whole < 10 ? 1 : 0)} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => whole >= size);
  const [big, size] = units[first];
  const [small, smaller] = units[first + 1] ?? ["", 1];
  const rest = small ? Math.floor((whole % size) / smaller) : 0;
  return `${Math.floor(whole / size)} ${big}` + (rest ? ` ${rest} ${small}` : "");
}

function clock(at) {
  const time = new Date(at * 1000);
  const today = new Date(now() * 1000).toDateString() === time.toDateString();
  return today ? time.toLocaleTimeString() : time.toLocaleString();
}

const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

// --- elements ------------------------------------------------------------------------------------

function make(tag, className = "", text = null) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== null) element.textContent = text;
  return element;
}

/** A text that somebody else has chosen: its direction of writing stays its own. */
const foreign = (text) => make("bdi", "", text);

function time(at) {
  const element = make("time", "", clock(at));
  element.dateTime = new Date(at * 1000).toISOString();
  return element;
}

/** A duration that goes on: `tick` keeps it up to date. */
function growing(since) {
  const element = make("span", "growing", duration(now() - since));
  element.dataset.since = since;
  return element;
}

/** Changes a text only if it is another one: a screen reader need not say it again. */
function say(element, text, className = null) {
  if (element.textContent !== text) element.textContent = text;
  if (className !== null && element.className !== className) element.className = className;
}

/** Has a parent hold one element for each item, in order; those that stay keep the focus. */
function keyed(parent, items, key, create, update) {
  const wanted = new Map(items.map((item) => [key(item), item]));
  const known = new Map();
  for (const child of [...parent.children]) {
    // First of all, so that those who stay are moved only if their order is another one.
    if (wanted.has(child.dataset.key)) known.set(child.dataset.key, child);
    else child.remove();
  }
  let place = parent.firstElementChild;
  for (const [name, item] of wanted) {
    let child = known.get(name);
    if (!child) {
      child = create(item);
      child.dataset.key = name;
    }
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
    update(child, item);
  }
}

/** Fills an element anew if what it says has changed. */
function fill(element, said, parts) {
  const mark = JSON.stringify(said);
  if (element.dataset.said === mark) return;
  element.dataset.said = mark;
  element.replaceChildren(...parts());
}

function row(cells, tag = "td") {
  const line = make("tr");
  for (const cell of cells) {
    const box = make(tag);
    box.append(cell);
    line.append(box);
  }
  return line;
}

// --- lines ---------------------------------------------------------------------------------------

let count = 0;

function createLine(line) {
  const article = make("article");
  const title = make("h3", "path");
  title.id = `line-${++count}`;
  article.setAttribute("aria-labelledby", title.id);
  const details = make("details");
  const scroll = make("div", "scroll");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", `Terms of ${line.path}`);
  const table = make("table");
  const head = make("thead");
  const headings = row(["Holder", "Began", "Ended", "Lasted", "Nobody before it", "Token"], "th");
  for (const heading of headings.children) heading.scope = "col";
  head.append(headings);
  table.append(head, make("tbody"));
  scroll.append(table);
  details.append(make("summary"), scroll);
  const timeline = make("div", "timeline");
  timeline.setAttribute("role", "img");
  const scale = make("p", "scale soft");
  scale.setAttribute("aria-hidden", "true");
  scale.append(make("span", "from"), make("span", "", "now"));
  article.append(title, make("p", "kind soft"), make("p", "families warn"), make("ul", "holders"),
    make("p", "vacant bad"), make("p", "queue soft"), make("ol", "waiting"), timeline, scale, details);
  article.classList.add("line");
  return article;
}

function updateLine(article, line) {
  const part = (name) => article.querySelector(name);
  say(part(".path"), line.path);
  say(part(".kind"), line.kind || "nobody has contended here yet");
  article.classList.toggle("idle", line.kind !== "election");
  const families = part(".families");
  families.hidden = !line.families.length;
  say(families, line.families.length
    ? `Not all of these exclude each other: ${line.families.join(", ")}.` : "");
  keyed(part(".holders"), line.holders, (one) => one.key, () => make("li", "holder"), (item, one) => {
    fill(item, [line.kind, one], () => holder(line, one));
  });
  const vacant = part(".vacant");
  vacant.hidden = line.vacant_since === null;
  if (line.vacant_since !== null) {
    fill(vacant, line.vacant_since,
      () => [NOBODY[line.kind] ?? "Nobody has held it for ", growing(line.vacant_since)]);
  }
  const waiting = line.waiting.length + line.more_waiting;
  say(part(".queue"), waiting ? `${plural(waiting, "contender")} in line:` : "Nobody waits.");
  keyed(part(".waiting"), line.waiting, (one) => one.key, () => make("li"), (item, one) => {
    fill(item, one, () => waiter(one));
  });
  say(part("summary"), `Terms (${line.terms.length})`);
  const terms = [...line.terms].reverse();
  keyed(part("tbody"), terms, (one) => one.key, () => make("tr"), (item, one) => {
    fill(item, one, () => termCells(one));
  });
  drawTimeline(article, line);
}

function holder(line, one) {
  const parts = [foreign(one.name), ` ${HOLDS[line.kind] ?? "holds"}, `];
  const since = one.not_before < one.began ? "for at most " : "for ";
  parts.push(since, growing(one.not_before), make("span", "soft", ` · token ${one.token}`));
  if (one.silent_since !== null) {
    parts.push(make("span", "bad", " · no connection for "), growing(one.silent_since));
  } else if (one.link === "none") {
    parts.push(make("span", "warn", " · belongs to no session: it never goes by itself"));
  }
  if (one.asked_to_go) parts.push(make("span", "warn", " · is asked to let go"));
  return parts;
}

function waiter(one) {
  const parts = [foreign(one.name), make("span", "soft", " for "), growing(one.since)];
  if (one.what === "reader" || one.what === "writer") parts.push(` (${one.what})`);
  if (one.link === "silent") parts.push(make("span", "bad", " · has no connection"));
  if (one.asked_to_go) parts.push(make("span", "warn", " · is asked to let go"));
  return parts;
}

function termCells(term) {
  const unsure = term.not_before < term.began;
  const began = make("span");
  began.append(unsure ? "after " : "", time(term.not_before));
  const lasted = term.ended === null ? growing(term.not_before)
    : `${unsure ? "≤ " : ""}${duration(term.ended - term.not_before)}`;
  const cells = [foreign(term.name), began, term.ended === null ? "goes on" : time(term.ended), lasted,
    term.gap === null ? "not known" : duration(term.gap), term.token];
  return [...row(cells).children];
}

function drawTimeline(article, line) {
  const span = Number($("span").value);
  const to = now();
  const { lanes, bars } = layOut(line.terms, to - span, to, line.vacant_since);
  const timeline = article.querySelector(".timeline");
  timeline.style.height = `${lanes * 1.6}rem`;
  const key = (bar) => (bar.term ? `term ${bar.term.key}` : `gap ${bar.begin}`);
  keyed(timeline, bars, key, (bar) => {
    if (!bar.term) return make("div", "gap");
    return make("div", `term hold-${colour(bar.term.name)}`, bar.term.name);
  }, (box, bar) => {
    box.style.left = `${bar.left}%`;
    box.style.width = `${bar.width}%`;
    box.style.top = `${bar.lane * 1.6}rem`;
    if (bar.term) {
      say(box, bar.term.name);
      box.classList.toggle("unsure", bar.term.not_before < bar.term.began);
    }
  });
  const terms = bars.filter((bar) => bar.term).length;
  const gaps = bars.filter((bar) => bar.gap);
  const longest = Math.max(0, ...gaps.map((bar) => bar.gap));
  const label = `The last ${duration(span)}: ${plural(terms, "term")}, ` +
    (gaps.length ? `${plural(gaps.length, "gap")} with nobody, the longest of ${duration(longest)}`
      : "no gap with nobody") + ". The table of terms has the same.";
  if (timeline.getAttribute("aria-label") !== label) timeline.setAttribute("aria-label", label);
  say(article.querySelector(".from"), `${duration(span)} ago`);
}

// --- the rest ------------------------------------------------------------------------------------

function showServers(ensemble) {
  const summary = $("servers-summary");
  $("servers").hidden = ensemble === null;
  if (ensemble === null) return;
  const up = `${ensemble.up} of ${plural(ensemble.voters, "voter")} up`;
  if (!ensemble.has_quorum) say(summary, `${up}: there is no quorum, nothing is served.`, "bad");
  else if (ensemble.tolerates === null) say(summary, "There is a quorum; not all servers were asked.", "");
  else if (ensemble.tolerates <= 0) say(summary, `${up}: no more may fail.`, "warn");
  else say(summary, `${up}: ${ensemble.tolerates} more may fail.`, "good");
  keyed($("servers").tBodies[0], ensemble.servers, (one) => one.server, () => make("tr"), (line, one) => {
    fill(line, one, () => {
      const name = make("th");
      name.scope = "row";
      name.append(foreign(one.server));
      const role = one.problem ? make("span", "bad", one.problem) : one.role ?? "not known";
      const rest = one.problem ? ["", "", ""]
        : [one.version ?? "?", one.behind ?? "?", String(one.connections ?? "?")];
      return [name, ...row([role, ...rest]).children];
    });
  });
}

function showHappenings(happenings) {
  $("happenings-none").hidden = happenings.length > 0;
  keyed($("happenings"), happenings, (one) => String(one.number), () => make("li"), (item, one) => {
    fill(item, one, () => {
      const text = make("span");
      text.append(make("span", "path", one.path), ": ", foreign(one.text));
      return [time(one.at), text];
    });
  });
}

function readOut(happenings) {
  const newest = happenings[0]?.number ?? 0;
  const fresh = happenings.filter((one) => one.number > told && told >= 0);
  told = newest;
  const heavy = fresh.find((one) => ["began", "vacant", "silent"].includes(one.what));
  if (heavy) say($("news"), `${heavy.path}: ${heavy.text}`);
}

function showStatus() {
  const status = $("status");
  const silent = (performance.now() - heard) / 1000;
  const isLive = isOpen && silent < STALE && state?.is_current;
  document.body.classList.toggle("is-old", !isLive);
  if (!isOpen || silent >= STALE) {
    say(status, state ? "Not live: the command does not answer. What is here may be old." : "Connecting …", "bad");
  } else if (!state) {
    say(status, "Connecting …", "soft");
  } else if (!state.is_current) {
    const why = state.link === "connected" ? "reading what there is" : `the session is ${state.link}`;
    say(status, `Not live: ${why}. What is here may be old.`, "warn");
  } else if (isPaused()) {
    say(status, "Paused.", "warn");
  } else {
    say(status, "Live.", "good");
  }
}

function show() {
  const text = $("filter").value;
  const lines = shown.lines.filter((line) => line.path.includes(text));
  keyed($("lines"), lines, (line) => line.key, createLine, updateLine);
  const note = $("lines-note");
  const hidden = shown.lines.length - lines.length;
  const notes = [];
  if (!lines.length) notes.push(hidden ? "No path has that." : "Nobody contends for anything here.");
  else if (hidden) notes.push(`${plural(hidden, "path")} left out.`);
  if (shown.more_lines) notes.push(`There are ${shown.more_lines} more than fit here.`);
  say(note, notes.join(" "));
  showUnreadable();
  showServers(shown.ensemble);
  showHappenings(shown.happenings);
}

function showUnreadable() {
  const box = $("unreadable");
  box.hidden = !shown.unreadable.length;
  keyed(box.querySelector("ul"), shown.unreadable, (path) => path, () => make("li", "path"), say);
  const more = box.querySelector(".more");
  more.hidden = !shown.more_unreadable;
  say(more, `And ${shown.more_unreadable} more.`);
}

function tick() {
  showStatus();
  if (!shown || isPaused()) return;
  for (const element of document.querySelectorAll(".growing")) {
    say(element, duration(now() - Number(element.dataset.since)));
  }
  const articles = $("lines").children;
  const lines = new Map(shown.lines.map((line) => [line.key, line]));
  for (const article of articles) drawTimeline(article, lines.get(article.dataset.key));
}

function take(news) {
  state = news;
  skew = news.now - Date.now() / 1000;
  if (!isPaused()) {
    shown = state;
    show();
    readOut(state.happenings);
  }
  showStatus();
}

$("pause").addEventListener("click", () => {
  $("pause").setAttribute("aria-pressed", String(!isPaused()));
  if (!isPaused() && state) take(state);
  else showStatus();
});
$("controls").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["filter", "span"]) $(id).addEventListener("input", () => shown && show());

function listen() {
  const source = new EventSource("events");
  const hear = (isThere) => { isOpen = isThere; heard = performance.now(); };
  source.addEventListener("open", () => { hear(true); showStatus(); });
  source.addEventListener("state", (event) => { hear(true); take(JSON.parse(event.data)); });
  source.addEventListener("beat", () => hear(true));
  source.addEventListener("error", () => {
    isOpen = false;
    showStatus();
    // A browser tries again by itself what has broken off, but not what was refused.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  });
}

listen();
setInterval(tick, 1000);
