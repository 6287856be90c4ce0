"""Accuracy against known or annotated changes: a zoo of simulated series, TCPD, NAB and TSSB."""
