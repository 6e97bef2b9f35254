"""The model of a ZooKeeper ensemble, on callbacks alone: no tasks, no I/O."""
