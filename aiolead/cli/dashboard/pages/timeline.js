// The terms of a path as bars on a time axis. Says what to draw; draws nothing itself.

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
export function layOut(terms, from, to, vacantSince, until = to) {
  const bar = placer(from, to);
  const bars = [];
  const busyUntil = [];
  for (const term of [...terms].sort((one, other) => one.not_before - other.not_before)) {
    const end = term.ended ?? until;
    if (term.gap && term.began > from && term.began - term.gap < to) {
      bars.push(bar(term.began - term.gap, term.began, { gap: term.gap, lane: 0 }));
    }
    if (end <= from || term.not_before >= to) continue;
    const found = busyUntil.findIndex((busy) => busy <= term.not_before);
    const lane = found < 0 ? busyUntil.length : found;
    busyUntil[lane] = end;
    bars.push(bar(term.not_before, end, { term, lane }));
  }
  if (vacantSince !== null && terms.length && vacantSince < to) {
    bars.push(bar(vacantSince, until, { gap: until - vacantSince, lane: 0 }));
  }
  return { lanes: Math.max(1, busyUntil.length), bars };
}

/** Where more than `most` were seen to hold at the same time. */
export function overlaps(terms, from, to, most, until = to) {
  const bar = placer(from, to);
  const changes = terms.flatMap((term) => [[term.began, 1], [term.ended ?? until, -1]]);
  changes.sort(([one, up], [other, down]) => one - other || up - down);
  const found = [];
  let count = 0, begin = null, peak = 0;
  for (const [at, by] of changes) {
    count += by;
    if (count > most && begin === null) [begin, peak] = [at, 0];
    peak = Math.max(peak, count);
    if (count <= most && begin !== null) {
      if (at > begin && at > from && begin < to) found.push(bar(begin, at, { count: peak }));
      begin = null;
    }
  }
  return found;
}

function placer(from, to) {
  const percent = (at) => (100 * (Math.min(Math.max(at, from), to) - from)) / (to - from);
  return (begin, end, more) =>
    ({ left: percent(begin), width: percent(end) - percent(begin), begin, end, ...more });
}

const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300,
  600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];

/** Round times for the marks of an axis, at most so many; and whether they need milliseconds. */
export function ticks(from, to, most) {
  const step = STEPS.find((each) => (to - from) / each <= most) ?? STEPS.at(-1);
  const marks = [];
  for (let n = Math.ceil(from / step); n * step <= to; n++) marks.push(n * step);
  return { marks, isPrecise: step < 1 };
}

/** One of six colours, the same for the same name. */
export function colour(name) {
  let hash = 0;
  for (const character of name) hash = (hash * 31 + character.codePointAt(0)) >>> 0;
  return hash % 6;
}
