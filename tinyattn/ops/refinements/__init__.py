"""Refinements: scores of attention made from scores of attention (AWRSR; Liu et al. 2024), one per file."""
