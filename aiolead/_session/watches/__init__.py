"""Watches: one-shot, persistent, and the events that streams buffer."""
