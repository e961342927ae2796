"""Every block there is: those to read, and those that models train with."""

from tinyattn.layers import BLOCKS, FUSED_BLOCKS

FORMS = BLOCKS | {f"fused {form}": block for form, block in FUSED_BLOCKS.items() if block is not BLOCKS[form]}
