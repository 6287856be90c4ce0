"""Generate the reference pages of the configuration file and of the command line from the code."""
