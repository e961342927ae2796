"""Models that are no recommenders: a network and its options, in a file for each."""
