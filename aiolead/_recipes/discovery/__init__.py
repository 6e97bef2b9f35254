"""Service discovery: who offers a service, and whom to ask."""
