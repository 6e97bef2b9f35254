// Shows the state that the command sends, and its changes. All that comes from it becomes text.

import * as detail from "./detail.js";
import { $, age, clock, foreign, isProblem, keyed, make, now, plural, say, set, setClock, STATES }
  from "./elements.js";
import * as table from "./table.js";

const STALE = 15; // seconds without a word, not even that nothing is new
const MOST_EVENTS = 100;
const SECTIONS = ["session", "overview", "servers", "unreadable"];
const SERVER = { serving: "●", "read-only": "◐", looking: "◌", silent: "…", unreachable: "✕", unknown: "?" };

const state = { session: null, overview: null, servers: null, unreadable: { paths: [], more: 0 },
  queues: new Map(), events: [] };
let heard = 0; // when we heard of the command last, by performance.now()
let shownAt = null; // the time of the state that is shown, by the command's clock
let isOpen = false;
let isDue = false;
let told = null; // the number of the last event that was read out

const isPaused = () => $("pause").getAttribute("aria-pressed") === "true";
let waiting = null; // what was sent while the page is paused, as one change

// --- what is sent --------------------------------------------------------------------------------

function hear(news) {
  isOpen = true;
  heard = performance.now();
  if (news?.now) {
    setClock(news.now);
    if (!isPaused()) shownAt = news.now;
  }
}

function take(name, news) {
  hear(news);
  if (isPaused()) {
    waiting = merged(name === "snapshot" ? null : waiting, name, news);
  } else {
    apply(name, news);
  }
  showStatus();
}

// Adds a change to those that wait: no more than one row for each key is kept, however long the
// page is paused.
export function merged(before, name, news) {
  const all = before ?? { name, sections: {}, gone: new Set(), queues: new Map(), events: [] };
  for (const section of SECTIONS) if (section in news) all.sections[section] = news[section];
  for (const key of news.gone ?? []) {
    all.queues.delete(key);
    if (state.queues.has(key)) all.gone.add(key);
  }
  for (const row of news.queues ?? []) all.queues.set(row.key, row);
  all.events = [...all.events, ...(news.events ?? [])].slice(-MOST_EVENTS);
  return all;
}

function apply(name, news) {
  for (const section of SECTIONS) {
    if (section in news) state[section] = news[section];
  }
  if (name === "snapshot") {
    state.queues.clear();
    state.events = [];
  }
  for (const key of news.gone ?? []) state.queues.delete(key);
  for (const row of news.queues ?? []) {
    state.queues.set(row.key, { ...NO_QUEUE, isOpenable: true, ...row });
  }
  state.events = [...state.events, ...(news.events ?? [])].slice(-MOST_EVENTS);
  readOut();
  schedule();
}

/** The page is drawn once for all that comes before the next frame. */
function schedule() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    show();
  });
}

function listen() {
  const source = new EventSource("events");
  source.addEventListener("open", () => { hear(); showStatus(); });
  for (const name of ["snapshot", "change"]) {
    source.addEventListener(name, (event) => take(name, JSON.parse(event.data)));
  }
  source.addEventListener("beat", (event) => hear(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    isOpen = false;
    showStatus();
    // A browser tries again by itself what has broken off, but not what was refused.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  });
}

// --- what is shown -------------------------------------------------------------------------------

function show() {
  showStatus();
  if (state.session === null) return;
  showOverview();
  showServers();
  const key = location.hash.startsWith("#/") ? location.hash.slice(2) : null;
  if (key !== detail.shown()) openDetail(key);
  $("list").hidden = key !== null;
  $("detail").hidden = key === null;
  if (key !== null) detail.take(state.queues.get(key) ?? null);
  else showTable();
  const text = $("filter").value.toLowerCase();
  const events = state.events.filter((one) => `${one.path} ${one.text}`.toLowerCase().includes(text));
  detail.showEvents($("events"), events);
  $("events-none").hidden = events.length > 0;
  say($("events-none"), state.events.length ? `None of ${plural(state.events.length, "event")} matches the search.`
    : "None since the dashboard was started.");
}

/** What to do where the page shows old data. */
const ADVICE = {
  lost: "Is “aiolead dashboard” still running, and can this browser reach it? The page connects again by itself.",
  cut: "The dashboard waits for a server. “aiolead doctor” says what is wrong on the way.",
};

function showStatus() {
  const silent = (performance.now() - heard) / 1000;
  const { session } = state;
  let [how, text] = ["live", "Live"];
  if (!isOpen || silent >= STALE) {
    [how, text] = session === null ? ["reading", "Connecting …"] : ["lost", "The dashboard does not answer"];
  } else if (session === null) {
    [how, text] = ["reading", "Connecting …"];
  } else if (!session.is_current && session.state === "connected") {
    [how, text] = ["reading", "Reading …"];
  } else if (!session.is_current) {
    [how, text] = ["cut", `No connection to ZooKeeper (${session.state})`];
  } else if (isPaused()) {
    [how, text] = ["paused", "Paused"];
  }
  set(document.body, "data-live", how);
  say($("status"), text);
  $("advice").hidden = !ADVICE[how];
  say($("advice"), ADVICE[how] ?? "");
  // Without ZooKeeper, news of the command make the state no newer.
  const asOf = session?.is_current ? shownAt : session?.as_of ?? null;
  tile("age", asOf ? age(now() - asOf) : "–", how === "live" || !asOf ? "" : `as of ${clock(asOf)} UTC`,
    how === "cut" || how === "lost");
  say($("clock"), session === null ? "" : `${clock(now())} UTC`);
}

function tile(name, text, note, isBad = false, isWarning = false) {
  const box = $(`tile-${name}`);
  say(box.querySelector("dd"), text);
  say(box.querySelector(".note"), note);
  box.classList.toggle("is-bad", isBad);
  box.classList.toggle("is-warning", isWarning);
}

function showOverview() {
  const { overview, servers } = state;
  tile("elections", String(overview.elections), plural(overview.leaders, "leader"));
  const ofPaths = overview.problems, ofServers = servers?.problems ?? 0;
  const isCurrent = !["cut", "lost"].includes(document.body.dataset.live) && state.session.is_current;
  const isApart = servers && !servers.has_quorum, down = ofServers - (isApart ? 1 : 0);
  const wrong = [ofPaths && plural(ofPaths, "path"), down && plural(down, "server"), isApart && "no quorum"].filter(Boolean);
  tile("problems", String(ofPaths + ofServers),
    wrong.join(", ") || (!isCurrent ? "last known" : servers ? "all well" : "servers not asked yet"), ofPaths + ofServers > 0);
  tile("contenders", String(overview.contenders), "");
  tile("sessions", String(overview.sessions),
    overview.silent ? `${overview.silent} silent` : "", Boolean(overview.silent));
  if (!servers) return tile("servers", "–", "not asked yet");
  const { up, voters, tolerates, looking, has_quorum: hasQuorum } = servers;
  tile("servers", `${up} / ${voters}`, !hasQuorum ? (looking ? "no leader" : "no quorum") : tolerates === null ? "quorum"
    : tolerates > 0 ? `${tolerates} more may fail` : voters > 1 ? "no more may fail" : "", !hasQuorum,
    voters > 1 && tolerates === 0);
}

function showServers() {
  const all = state.servers?.all ?? [];
  keyed($("servers"), all, (one) => one.server, () => {
    const item = make("li");
    item.append(make("span", "sign"), foreign(""), make("span", "role"), make("span", "facts"));
    item.firstElementChild.setAttribute("aria-hidden", "true");
    return item;
  }, (item, one) => {
    const [sign, name, role, facts] = item.children;
    set(item, "class", `server is-${one.state}`);
    say(sign, SERVER[one.state] ?? "?");
    say(name, one.server);
    if (item.title !== one.server) item.title = one.server;
    say(role, one.role ?? (one.state === "serving" ? "role unknown" : ""));
    const known = [];
    if (one.latency !== null) known.push(`${one.latency.toFixed(1)} ms`);
    if (one.connections !== null) known.push(plural(one.connections, "connection"));
    if (one.behind !== null) known.push(one.behind === "0" ? "up to date" : `${one.behind} behind`);
    if (one.version) known.push(one.version);
    say(facts, one.problem ?? known.join(" · "));
  });
}

function showTable() {
  const known = new Set([...state.queues.values()].map((row) => row.path));
  const closed = state.unreadable.paths.filter((path) => !known.has(path));
  const all = [...state.queues.values(), ...closed.map(unreadableRow)];
  showTypes(all);
  const longest = Math.max(0, ...all.map((row) => row.path.length));
  $("table").style.setProperty("--longest", String(Math.min(72, longest)));
  const text = $("filter").value.toLowerCase(), type = $("type").value, wanted = $("state").value;
  const has = (row) => row.path.toLowerCase().includes(text) || row.note.toLowerCase().includes(text) ||
    row.holders.some((one) => one.name.toLowerCase().includes(text));
  const rows = all.filter((row) => (!text || has(row)) && (!type || row.type === type) &&
    (!wanted || (wanted === "problem" ? isProblem(row) : row.state === wanted)));
  table.show(rows);
  const isEmpty = all.every((row) => row.state === "unused");
  $("empty").hidden = !isEmpty || !state.session.is_current;
  const notes = [];
  $("no-match").hidden = !all.length || rows.length > 0;
  if (rows.length < all.length) notes.push(`${rows.length} of ${plural(all.length, "path")}`);
  else notes.push(plural(all.length, "path"));
  if (state.overview.more_paths) notes.push(`${state.overview.more_paths} more than fit here`);
  if (state.overview.is_incomplete) notes.push("not all znodes are read (--max-znodes)");
  if (state.unreadable.more) notes.push(`${state.unreadable.more} more unreadable`);
  say($("note"), notes.join(", "));
}

/** What a row that is no contender queue does not have. */
const NO_QUEUE = { type: "", holders: [], more_holders: 0, contenders: null, changed: null, vacant_since: null,
  handovers: [], families: [], note: "", isOpenable: false };

const unreadableRow = (path) => ({ ...NO_QUEUE, key: `unreadable ${path}`, path, state: "unreadable" });

function showTypes(rows) {
  const types = [...new Set([...rows.map((row) => row.type), $("type").value])].filter(Boolean).sort();
  keyed($("type"), ["", ...types], (type) => type, (type) => {
    const option = make("option", "", type || "any");
    option.value = type;
    return option;
  }, () => {});
}

function openDetail(key) {
  const before = detail.shown();
  detail.open(key);
  if (key !== null) {
    $("list").hidden = true;
    $("detail").hidden = false;
    $("detail-path").focus();
  } else if (before !== null) {
    $("list").hidden = false;
    $("detail").hidden = true;
    showTable();
    table.focus(before);
  }
}

function readOut() {
  const last = state.events.at(-1)?.number ?? 0;
  const fresh = state.events.filter((one) => told !== null && one.number > told);
  told = last;
  const heavy = fresh.reverse().find((one) => ["began", "vacant", "silent", "down", "up"].includes(one.what));
  if (heavy) say($("news"), heavy.path ? `${heavy.path}: ${heavy.text}` : heavy.text);
}

// --- controls ------------------------------------------------------------------------------------

const FILTERS = ["filter", "type", "state"];

function readAddress() {
  const given = new URLSearchParams(location.search);
  $("state").append(...Object.entries(STATES).map(([value, [label]]) => {
    const option = make("option", "", label);
    option.value = value;
    return option;
  }));
  for (const name of FILTERS) {
    const value = given.get(name) ?? "";
    if (name === "type" && value) showTypes([{ type: value }]);
    $(name).value = value;
  }
}

function writeAddress() {
  const wanted = new URLSearchParams(FILTERS.map((name) => [name, $(name).value]).filter(([, value]) => value));
  const query = wanted.toString();
  history.replaceState(null, "", `${location.pathname}${query ? `?${query}` : ""}${location.hash}`);
}

function pause() {
  $("pause").setAttribute("aria-pressed", String(!isPaused()));
  if (!isPaused() && waiting) {
    const { name, sections, gone, queues, events } = waiting;
    waiting = null;
    apply(name, { ...sections, gone: [...gone], queues: [...queues.values()], events });
  }
  showStatus();
}

const stored = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
const store = (name, value) => { try { localStorage.setItem(name, value); } catch { /* not kept */ } };

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  say($("theme"), `Colours: ${theme}`);
}

function nextTheme() {
  const themes = ["auto", "light", "dark"];
  const theme = themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % 3];
  setTheme(theme);
  store("theme", theme);
}

const KEYS = {
  "/": () => { location.hash = ""; show(); $("filter").focus(); },
  j: () => table.move(1),
  ArrowDown: () => table.move(1),
  k: () => table.move(-1),
  ArrowUp: () => table.move(-1),
  p: pause,
  t: nextTheme,
  "?": () => $("help").showModal(),
};

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  const isTyping = event.target.matches("input, select");
  if (event.key === "Escape") {
    if (isTyping && event.target.value) { event.target.value = ""; writeAddress(); show(); }
    else if (location.hash) location.hash = "";
    return;
  }
  const does = KEYS[event.key];
  if (!does || isTyping || !$("shortcuts").checked) return;
  if (event.key.startsWith("Arrow") && (detail.shown() !== null || event.target.closest("#timeline"))) return;
  event.preventDefault();
  does();
}

setTheme(["light", "dark"].includes(stored("theme")) ? stored("theme") : "auto");
$("shortcuts").checked = stored("shortcuts") !== "off";
$("shortcuts").addEventListener("input", () => store("shortcuts", $("shortcuts").checked ? "on" : "off"));
readAddress();
table.start(() => show());
detail.start();
$("pause").addEventListener("click", pause);
$("theme").addEventListener("click", nextTheme);
$("help-open").addEventListener("click", () => $("help").showModal());
$("help-close").addEventListener("click", () => $("help").close());
$("controls").addEventListener("submit", (event) => event.preventDefault());
$("clear").addEventListener("click", () => {
  for (const name of FILTERS) $(name).value = "";
  writeAddress();
  show();
  $("filter").focus();
});
for (const name of FILTERS) $(name).addEventListener("input", () => { writeAddress(); show(); });
$("back").addEventListener("click", (event) => { event.preventDefault(); location.hash = ""; });
addEventListener("hashchange", show);
addEventListener("keydown", press);
listen();
setInterval(() => (isPaused() ? showStatus() : schedule()), 1000);
