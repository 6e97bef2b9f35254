"""The recipes on the clients of other libraries."""
