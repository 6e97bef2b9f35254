"""The lease: what is proven of the session, what is held under it, and when it is renewed."""
