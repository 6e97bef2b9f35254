"""Connections: servers, sockets, TLS, and the task that keeps one connection open."""
