"""A made-up world for programs that use aiolead: time, network and servers are simulated."""
