"""The watchdog: a thread that ends the process if a body outlives its lease."""
