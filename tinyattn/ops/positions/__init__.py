"""Positions: vectors that are added or turned, and terms of scores; one idea per file."""
