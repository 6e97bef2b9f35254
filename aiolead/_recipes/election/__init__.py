"""Leader election."""
