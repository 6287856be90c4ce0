"""Speed and accuracy against peers, printed as ratios of one run."""
