"""Families of two-fidelity streams, rules tuned to a spend, and their scores against the all-high run."""
