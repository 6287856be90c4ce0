"""``python -m mfbocd.cli``."""

from . import main

main(prog_name="mfbocd")
