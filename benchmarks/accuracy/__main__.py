"""``python -m benchmarks.accuracy``."""

from .tcpd import main

main()
