"""The tables of what the recipes cost: one module for each group of recipes, with its `ROWS`.

python -m tests.costs           measures, and says what it has found
python -m tests.costs --write   writes it into the pages of docs/

A page has the table of a group between `<!-- costs: GROUP -->` and `<!-- end of costs -->`;
docs/reference/costs.md has those of all.
"""
