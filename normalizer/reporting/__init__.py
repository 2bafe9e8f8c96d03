"""Results as JSON and as lines for people."""
