"""Stories that two servers play, whose answers are compared."""
