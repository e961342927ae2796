"""Refinements: new scores of attention, computed from its scores (AWRSR; Liu et al. 2024), one per file."""
