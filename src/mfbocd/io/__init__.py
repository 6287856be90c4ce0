"""Configuration files and tables."""
