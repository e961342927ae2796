"""Models that are no recommenders: a network and its options, a file each."""
