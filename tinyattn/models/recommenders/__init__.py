"""Recommenders: a network or a count, and its options, a file each."""
