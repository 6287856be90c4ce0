"""Compiled loops over run-length hypotheses: arrays and scalars in, arrays out; no model, no policy."""
