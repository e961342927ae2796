"""Attention, a file a form: as it is defined, arranged for a CPU, and with fewer pairs or none."""
