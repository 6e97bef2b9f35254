"""The parts of a fault proxy: a thread, links, and taps that inspect passing bytes."""
