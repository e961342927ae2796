"""Attention, one form a file: as it is defined, arranged for a CPU, and with fewer pairs or none."""
