// The table of paths. Only the rows that are visible are in the page, whatever their number.

import { $, age, clock, cuttable, isProblem, keyed, lasted, make, NAME_TAIL, now, roughly, say, set,
  showState, STATES, TAIL } from "./elements.js";

const MORE = 4; // rows above and below what is visible
const BUCKET = 120; // seconds of each bar of a sparkline
const BUCKETS = 30;
const SVG = "http://www.w3.org/2000/svg";

const first = (row) => row.holders[0];
const COLUMNS = [
  { name: "state", title: "State", by: (row) => STATES[row.state]?.[2] ?? 0 },
  { name: "path", title: "Path", by: (row) => row.path },
  { name: "type", title: "Type", by: (row) => row.type },
  { name: "holder", title: "Holder", by: (row) => first(row)?.name ?? "" },
  { name: "since", title: "Since (UTC)", by: (row) => -(first(row)?.began ?? row.vacant_since ?? 0) },
  { name: "age", title: "For", by: (row) => -(first(row)?.not_before ?? row.vacant_since ?? 0) },
  { name: "token", title: "Token", by: (row) => Number(first(row)?.token ?? 0) },
  { name: "contenders", title: "Contenders", by: (row) => -(row.contenders ?? -1) },
  { name: "changed", title: "Last change", by: (row) => -(row.changed ?? 0) },
  { name: "handovers", title: "Hand-overs, 1 h", by: (row) => -recent(row) },
];

let rows = []; // those that the filter leaves, in order
let order = ["state", 1];
let redraw = () => {};
let tails = new Map();

export function start(onChange) {
  redraw = onChange;
  const head = $("columns");
  for (const column of COLUMNS) {
    const cell = make("div", `c-${column.name}`);
    cell.setAttribute("role", "columnheader");
    const button = make("button", "", column.title);
    button.type = "button";
    button.addEventListener("click", () => {
      order = [column.name, order[0] === column.name ? -order[1] : 1];
      redraw();
    });
    cell.append(button);
    head.append(cell);
  }
  $("scroller").addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe($("scroller"));
}

/** Shows these rows of all. */
export function show(found) {
  const [name, direction] = order;
  const column = COLUMNS.find((each) => each.name === name);
  for (const [n, cell] of [...$("columns").children].entries()) {
    const isIt = COLUMNS[n] === column;
    set(cell, "aria-sort", isIt ? (direction > 0 ? "ascending" : "descending") : "none");
  }
  const keys = new Map(found.map((row) => [row, column.by(row)]));
  const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
  rows = [...found].sort((one, other) =>
    direction * compare(keys.get(one), keys.get(other)) || compare(one.path, other.path));
  tails = tailsOf(rows.map((row) => row.path));
  draw();
}

const differAt = (one, other) => [...one].findIndex((_, n) => one[n] !== other[n]);

/** Where to cut paths: of those with the same end, the rest has what differs. */
export function tailsOf(paths) {
  const found = new Map();
  for (const group of Map.groupBy(new Set(paths), (path) => path.slice(-TAIL)).values()) {
    const at = Math.min(...group.slice(1).map((other) => differAt(group[0], other))) - 4;
    if (group.length > 1) for (const path of group) found.set(path, path.length - Math.max(0, at));
  }
  return found;
}

const height = () => parseFloat(getComputedStyle($("scroller")).getPropertyValue("--row"));

export function draw() {
  const scroller = $("scroller"), body = $("rows"), size = height();
  set($("table"), "aria-rowcount", String(rows.length + 1));
  const whole = `${rows.length * size}px`;
  if (body.style.height !== whole) body.style.height = whole;
  const from = Math.max(0, Math.floor(scroller.scrollTop / size) - MORE);
  const to = Math.ceil((scroller.scrollTop + scroller.clientHeight) / size) + MORE;
  const focused = document.activeElement?.closest?.("#rows > .row")?.dataset.key;
  const visible = [];
  for (const [n, row] of rows.entries()) {
    if ((n >= from && n < to) || row.key === focused) visible.push([n, row]);
  }
  keyed(body, visible, ([, row]) => row.key, create, (element, [n, row]) => {
    const place = `translateY(${n * size}px)`;
    if (element.style.transform !== place) element.style.transform = place;
    set(element, "aria-rowindex", String(n + 2));
    update(element, row);
  });
}

function create([, row]) {
  const element = make("div", "row");
  element.setAttribute("role", "row");
  for (const { name } of COLUMNS) {
    const cell = make("div", `c-${name}`);
    cell.setAttribute("role", "cell");
    element.append(cell);
  }
  const [state, path, , holder, , , , , , handovers] = element.children;
  state.append(make("span"));
  if (row.isOpenable) {
    path.append(make("a"));
    path.firstElementChild.href = `#/${row.key}`;
  }
  holder.append(cuttable(""), make("span", "soft"));
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", `0 0 ${BUCKETS * 3} 16`);
  drawing.setAttribute("aria-hidden", "true");
  drawing.append(document.createElementNS(SVG, "path"));
  handovers.append(make("span"), drawing);
  return element;
}

function update(element, row) {
  const [state, path, type, holder, since, lasting, token, contenders, changed, handovers] = element.children;
  const term = first(row), name = term?.name ?? "", tail = String(tails.get(row.path) ?? TAIL);
  if (path.dataset.tail !== tail) {
    path.dataset.tail = tail;
    (row.isOpenable ? path.firstElementChild : path).replaceChildren(cuttable(row.path, Number(tail)));
  }
  element.classList.toggle("is-problem", isProblem(row));
  showState(state.firstElementChild, row.state);
  say(type, row.type);
  // Names differ at both ends: by machine, and on one machine.
  if (holder.firstElementChild.title !== name) holder.firstElementChild.replaceWith(cuttable(name, NAME_TAIL));
  set(holder, "title", term?.name ?? row.note);
  const more = row.holders.length + row.more_holders - 1;
  say(holder.lastElementChild, term ? (more > 0 ? ` +${more}` : "") : row.state === "in use" ? row.note
    : row.isOpenable ? "nobody" : "");
  const began = term?.not_before ?? row.vacant_since;
  say(since, began ? clock(began) : "");
  say(lasting, term ? lasted(term) : began ? age(now() - began) : "");
  say(token, term ? term.token : "");
  say(contenders, row.contenders === null ? "" : String(row.contenders));
  say(changed, row.changed ? `${roughly(now() - row.changed)} ago` : "");
  const count = recent(row);
  say(handovers.firstElementChild, count ? String(count) : "");
  drawHandovers(handovers.lastElementChild.firstElementChild, row);
}

const newest = () => Math.floor(now() / BUCKET);

/** How many hand-overs there were in the last hour. */
function recent(row) {
  const from = newest() - BUCKETS;
  return row.handovers.reduce((sum, [bucket, count]) => sum + (bucket > from ? count : 0), 0);
}

function drawHandovers(path, row) {
  const last = newest();
  const most = Math.max(1, ...row.handovers.map(([, count]) => count));
  const bars = row.handovers
    .filter(([bucket]) => bucket > last - BUCKETS)
    .map(([bucket, count]) => {
      const size = Math.max(3, Math.round((15 * count) / most));
      return `M${(bucket - last + BUCKETS - 1) * 3} 16v-${size}h2v${size}z`;
    });
  set(path, "d", bars.join(""));
}


/** Puts the focus on the row so many further down; the first one, if none has it. */
export function move(by) {
  if (!rows.length) return;
  const key = document.activeElement?.closest?.("#rows > .row")?.dataset.key;
  const from = rows.findIndex((row) => row.key === key);
  focus(rows[from < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, from + by))].key);
}

export function focus(key) {
  const n = rows.findIndex((row) => row.key === key);
  if (n < 0) return;
  const scroller = $("scroller"), size = height();
  const below = (n + 1) * size + $("columns").offsetHeight - scroller.clientHeight;
  if (scroller.scrollTop > n * size) scroller.scrollTop = n * size;
  else if (scroller.scrollTop < below) scroller.scrollTop = below;
  draw();
  const row = [...$("rows").children].find((each) => each.dataset.key === key);
  (row?.querySelector("a") ?? row)?.focus({ preventScroll: true });
}
