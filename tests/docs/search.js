// Prints the pages that the search of a built site finds, the best first: node search.js SITE QUERY
//
// Runs Sphinx's own scripts, with the few things of a browser that they need to rank.
"use strict";

const fs = require("node:fs");
const vm = require("node:vm");

const [site, query] = process.argv.slice(2);
const browser = vm.createContext({
  URLSearchParams,
  location: { search: `?${new URLSearchParams({ q: query })}` },
  document: { getElementById: () => null },
  SPHINX_HIGHLIGHT_ENABLED: false,
  _: (text) => text,
  _ready: () => {},
  query,
});
browser.window = browser;
for (const script of ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"]) {
  vm.runInContext(fs.readFileSync(`${site}/${script}`, "utf8"), browser, { filename: script });
}
const found = vm.runInContext("Search._performSearch(...Search._parseQuery(query))", browser);
for (const [page, title] of found.reverse()) console.log(`${page} ${title}`);
