"""tinyattn teaches attention by building it, in NumPy, with every backward pass derived by hand.

Read from the bottom up: `ops` (the mathematics), `layers` (composites), `models` (SASRec). CONTRIBUTING.md
has the conventions, docs/block.md a glossary of names and shapes.
"""

__version__ = "0.2.0"
