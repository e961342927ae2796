"""Positions: vectors that are added or turned, and terms of scores; a file an idea."""
