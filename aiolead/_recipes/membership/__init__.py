"""Being there, and knowing who is: znodes that are kept, groups, and work that a group shares."""
