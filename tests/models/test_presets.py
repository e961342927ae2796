"""Presets: each is a model that can be made, with just the options it names."""

import pytest

from tinyattn.models import MODELS, PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_makes_its_model(name):
    preset = PRESETS[name]
    found = MODELS[preset.model](**preset.options).identity()
    assert found == found | preset.options
    assert len(preset.source) > 10
