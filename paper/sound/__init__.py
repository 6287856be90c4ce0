"""The machine-sound experiment: clips, autoencoders, streams of their readings, and what is run on them."""
