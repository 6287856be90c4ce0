"""Many streams on a network: ask what to read next, tell what was read, watch. Nothing acknowledged is ever lost."""
