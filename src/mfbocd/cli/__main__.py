"""`python -m mfbocd.cli`."""

from . import main

main()
