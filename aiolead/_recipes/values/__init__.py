"""Values that several processes share, and views of znodes."""
