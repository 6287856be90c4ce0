"""Delay against spend at equal false-alarm rates: streams, peers from theory, calibration, tables."""
