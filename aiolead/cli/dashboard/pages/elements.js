// Elements and words. All text from outside goes through `textContent`, never through markup.

export const $ = (id) => document.getElementById(id);

export function make(tag, className = "", text = null) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== null) element.textContent = text;
  return element;
}

/** A text that somebody else has chosen: its direction of writing stays its own. */
export const foreign = (text, className = "") => make("bdi", className, text);

export const TAIL = 24; // characters at the end of a path that are cut last: paths differ there
export const NAME_TAIL = 6; // the same of a name: a port, or a process number

/** A text that is cut in its middle where there is no room; a tooltip has it in full. */
export function cuttable(text, tail = TAIL) {
  const whole = foreign("", "cuttable");
  const at = text.length > tail + 8 ? text.length - tail : 0;
  whole.append(make("span", "begin", text.slice(0, at)), make("span", tail > TAIL ? "end early" : "end", text.slice(at)));
  whole.title = text;
  return whole;
}

/** A button that copies a text. */
export function copier(text, what) {
  const button = make("button", "copy", "Copy");
  button.type = "button";
  button.setAttribute("aria-label", `Copy ${what}`);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      say(button, "Copied");
    } catch {
      // Without TLS, browsers have no clipboard except on this machine: it is selected instead.
      getSelection().selectAllChildren(button.previousElementSibling);
      say(button, "Selected");
    }
    setTimeout(() => say(button, "Copy"), 2000);
  });
  return button;
}

/** Changes a text only if it is another one: a screen reader need not say it again. */
export function say(element, text, className = null) {
  if (element.textContent !== text) element.textContent = text;
  if (className !== null && element.className !== className) element.className = className;
}

export function set(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Has a parent hold one element for each item, in order; those that stay keep the focus. */
export function keyed(parent, items, key, create, update) {
  const wanted = new Map(items.map((item) => [key(item), item]));
  const known = new Map();
  for (const child of [...parent.children]) {
    // First of all, so that those that stay are moved only if their order is another one.
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

// --- times ---------------------------------------------------------------------------------------

let skew = 0; // how far the command's clock is ahead of ours, in seconds

/** The time by the command's clock, in seconds since 1970. */
export const now = () => Date.now() / 1000 + skew;
export const setClock = (at) => { skew = at - Date.now() / 1000; };

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export function duration(seconds) {
  const whole = Math.max(0, seconds);
  if (whole < 1) return `${Math.round(whole * 1000)} ms`;
  if (whole < 10) return `${whole.toFixed(1)} s`;
  return age(whole);
}

/** The same in whole seconds: for what is shown as it grows. */
export function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const first = Math.max(0, UNITS.findIndex(([, size]) => whole >= size));
  if (whole < 60) return `${whole} s`;
  const [big, size] = UNITS[first];
  const [small, smaller] = UNITS[first + 1];
  const rest = Math.floor((whole % size) / smaller);
  return `${Math.floor(whole / size)} ${big}` + (rest ? ` ${rest} ${small}` : "");
}

/** The same in its greatest unit alone. */
export const roughly = (seconds) => age(seconds).split(" ").slice(0, 2).join(" ");

const HALF_A_DAY = 43200;

/** The time of day in UTC, as in logs and in `aiolead top`; with the date if it were ambiguous. */
export function clock(at, { precise = false } = {}) {
  const [day, time] = new Date(at * 1000).toISOString().split("T");
  return (Math.abs(now() - at) < HALF_A_DAY ? "" : `${day} `) + time.slice(0, precise ? 12 : 8);
}

export function time(at, options) {
  const element = make("time", "", clock(at, options));
  element.dateTime = new Date(at * 1000).toISOString();
  return element;
}

// --- words ---------------------------------------------------------------------------------------

export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** The states of a path: what they are called, a sign, and how urgent they are. */
export const STATES = {
  mixed: ["not exclusive", "⚠", 0],
  silent: ["lost holder", "◌", 1],
  paused: ["paused holder", "◐", 2],
  unowned: ["no session", "⚠", 3],
  vacant: ["no leader", "✕", 4],
  unreadable: ["unreadable", "⊘", 5],
  held: ["held", "●", 6],
  free: ["free", "○", 7],
  "in use": ["in use", "◇", 8],
  unused: ["unused", "·", 9],
};
export const isProblem = (row) => (STATES[row.state]?.[2] ?? 0) < 5;

export function showState(element, state) {
  const [label, sign] = STATES[state] ?? [state, "?"];
  if (element.dataset.state === state) return;
  element.dataset.state = state;
  element.className = `state is-${state.replace(" ", "-")}`;
  const drawn = make("span", "sign", sign);
  drawn.setAttribute("aria-hidden", "true");
  element.replaceChildren(drawn, make("span", "", label));
}

/** A term's length so far; `≤` if its begin was not seen. */
export const lasted = (term) =>
  (term.not_before < term.began ? "≤ " : "") + age((term.ended ?? now()) - term.not_before);
