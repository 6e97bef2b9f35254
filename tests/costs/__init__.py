"""The tables of what the recipes cost: one module for each group of recipes, with its `ROWS`.

python -m tests.costs           measures, and says what it has found
python -m tests.costs --write   writes it into expected.md

The tables stand between `<!-- costs: all -->` and `<!-- end of costs -->`. The page for users,
docs/reference/costs.md, has some of the rows.
"""
