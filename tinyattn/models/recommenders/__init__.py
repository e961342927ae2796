"""Recommenders: a network or a count, and its options, in a file for each."""

from . import ported  # adds its network to those of SASRec
