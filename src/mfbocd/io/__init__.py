"""Configuration files and tables of readings."""
