import pytest


@pytest.fixture(autouse=True)
def everywhere(device):
    """Every test of this folder runs on every device there is."""
