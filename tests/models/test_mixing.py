"""Which options are attention's: other mixers refuse them."""

import pytest

from tinyattn.models import DecoderNetwork, SASRecNetwork
from tinyattn.models.mixing import OF_ATTENTION
from tinyattn.options import options_of

VALUES = (True, False, 1, 2, 4, 0.5)
KINDS = {SASRecNetwork: {"n_items": 5, "dim": 8, "heads": 2}, DecoderNetwork: {"n_tokens": 5, "dim": 8, "heads": 2}}


def accepted(kind, name, values):
    """The mixers of all networks that have one of the values in this option."""
    for value in values:
        try:
            yield kind(**KINDS[kind] | {name: value}).block.mixer
        except (TypeError, ValueError):
            continue


@pytest.mark.parametrize("kind", KINDS)
def test_what_changes_attention_is_known_as_its_option(kind):
    """A new option is found here by what it does: if OF_ATTENTION lacked it, any mixer would take and ignore it."""
    base, moves = kind(**KINDS[kind]).block.mixer, set()
    for declared in options_of(kind):
        values = [*(declared.option.choices or ()), *VALUES]
        if any(mixer != base for mixer in accepted(kind, declared.name, values)):
            moves.add(declared.name)
    moves -= {"mixer", "position", "block_form"}                # other mixers have these, too
    assert moves == OF_ATTENTION & {declared.name for declared in options_of(kind)}
