"""aiolead beside the least that can be done, and beside its peers. See README.md."""
