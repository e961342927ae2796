"""Attention, one form per file: as it is defined, arranged for a CPU, and with fewer pairs or none."""
