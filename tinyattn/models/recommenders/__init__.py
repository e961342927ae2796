"""Recommenders: a network or a count, and its options, a file each."""

from . import ported  # adds its network to those of SASRec
