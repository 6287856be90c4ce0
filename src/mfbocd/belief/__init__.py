"""The belief about the run length: hazard, pruning, the filter, expected gains and the saved format."""
