// Ranks the results of the search: guides before the reference, and pages whose title has the words
// of the query before pages that only mention them. Sphinx's own scores know neither.
"use strict";

var Scorer = {
  // The most that the folder of a page adds, by the beginning of its name; the first one that fits.
  folders: [
    ["tutorial/", 12],
    ["how-to/migrating/", 2],
    ["how-to/", 12],
    ["reference/api/", 0],
    ["reference/", 6],
    ["explanation/", 6],
    ["contributing/", -8],
  ],

  objNameMatch: 11,
  objPartialMatch: 3,
  objPrio: { 0: 4, 1: 2, 2: -5 },
  objPrioDefault: 0,
  title: 8,
  partialTitle: 4,
  term: 5,
  partialTerm: 2,

  stems: (text) => {
    const stemmer = new Stemmer();
    return text
      .toLowerCase()
      .split(/[^\p{L}\p{N}]+/u)
      .filter((word) => word && !stopwords.has(word))
      .map((word) => stemmer.stemWord(word));
  },

  // From 0 to 2: which part of the query is in the title, and which part of the title in the query.
  likeness: (query, title) => {
    const asked = new Set(Scorer.stems(query));
    const words = Scorer.stems(title);
    const found = words.filter((word) => asked.has(word));
    if (!found.length) return 0;
    return new Set(found).size / asked.size + found.length / words.length;
  },

  score: ([page, title, , , score, , kind]) => {
    const query = new URLSearchParams(window.location.search).get("q") ?? "";
    const [, folder] = Scorer.folders.find(([name]) => page.startsWith(name)) ?? ["", 0];
    if (kind === "object") {
      // A whole name, such as LockLost, is looked up in the reference.
      const isWhole = title.toLowerCase().split(".").pop() === query.trim().toLowerCase();
      const isClass = /\.[A-Z]\w*$/.test(title);
      const isBlocking = title.startsWith("aiolead.blocking.");
      return score + (isWhole && isClass ? 60 : 0) - (isBlocking ? 10 : 0);
    }
    const own = title.split(" > ").pop();
    return score + folder + 20 * Scorer.likeness(query, own);
  },
};
