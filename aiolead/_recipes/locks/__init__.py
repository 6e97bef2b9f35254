"""Locks, semaphores, conditions and unique names."""
