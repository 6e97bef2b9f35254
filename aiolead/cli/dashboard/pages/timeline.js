// The terms of a line as bars on a time axis. Says what to draw; draws nothing itself.

/**
 * Bars for terms, in lanes, so that those who hold at the same time are below each other; and gaps,
 * where nobody held.
 *
 * @param {Array} terms as the state has them: by when they ended, those that go on last.
 * @param {number} from where the axis begins, in seconds since 1970.
 * @param {number} to where it ends.
 * @param {?number} vacantSince since when nobody holds.
 * @returns {{lanes: number, bars: Array}} each bar with `left` and `width` in percent.
 */
export function layOut(terms, from, to, vacantSince) {
  const percent = (at) => (100 * (Math.min(Math.max(at, from), to) - from)) / (to - from);
  const bar = (begin, end, more) =>
    ({ left: percent(begin), width: percent(end) - percent(begin), begin, end, ...more });
  const bars = [];
  const busyUntil = [];
  for (const term of [...terms].sort((one, other) => one.not_before - other.not_before)) {
    const end = term.ended ?? to;
    if (term.gap) {
      if (term.began > from) bars.push(bar(term.began - term.gap, term.began, { gap: term.gap, lane: 0 }));
    }
    if (end <= from) continue;
    const found = busyUntil.findIndex((until) => until <= term.not_before);
    const lane = found < 0 ? busyUntil.length : found;
    busyUntil[lane] = end;
    bars.push(bar(term.not_before, end, { term, lane }));
  }
  if (vacantSince !== null && terms.length) {
    bars.push(bar(vacantSince, to, { gap: to - vacantSince, lane: 0 }));
  }
  return { lanes: Math.max(1, busyUntil.length), bars };
}

/** One of six colours, the same for the same name. */
export function colour(name) {
  let hash = 0;
  for (const character of name) hash = (hash * 31 + character.codePointAt(0)) >>> 0;
  return hash % 6;
}
