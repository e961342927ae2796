"""Attention, one form per file: as defined, rearranged for a CPU, for some of the pairs, or without any scores."""
