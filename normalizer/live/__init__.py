"""One conversation as it happens: turns, tool runs, steering, on top of the journal."""
