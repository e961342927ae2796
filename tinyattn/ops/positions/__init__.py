"""Positions: vectors added to tokens, rotations of queries and keys, and biases of scores; one idea per file."""
