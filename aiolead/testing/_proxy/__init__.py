"""What a fault proxy is made of: a thread, links, and taps that look at what passes."""
