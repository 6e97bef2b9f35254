"""One table of operations, arguments, and what every server must answer."""
