"""Requests: queued, in flight, answered, and overdue."""
