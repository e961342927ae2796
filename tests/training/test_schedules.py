import numpy as np
import pytest

from tinyattn.training import SCHEDULES
from tinyattn.training.schedules import rate_at, rate_factors

pytestmark = pytest.mark.host  # a table on the host, whatever the device


def test_noam_is_the_papers_number_by_number():
    """lr = d^-½ min(t^-½, t w^-³ᐟ²), with d 512 and w 4,000: our lr is its peak."""
    d, w = 512, 4000
    lr, factors = (d * w) ** -0.5, rate_factors("noam", w, 10_000)
    for t in (1, 2, 3999, 4000, 4001, 10_000):
        np.testing.assert_allclose(rate_at(lr, factors, t), d**-0.5 * min(t**-0.5, t * w**-1.5), rtol=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("warmup", [0, 1, 2, 9, 10, 11, 500])
def test_it_grows_to_its_peak_and_never_again(name, warmup):
    factors, w = rate_factors(name, warmup, 10), max(warmup, 1)
    assert factors.shape == (11,)
    np.testing.assert_allclose(factors[: w + 1], np.arange(min(w, 10) + 1) / w, rtol=1e-15)
    assert np.all(np.diff(factors[w:]) <= 0)
    assert np.all(factors[1:] > 0)  # no step is for nothing


def test_an_unknown_schedule_is_named_with_those_there_are():
    with pytest.raises(ValueError, match=r"schedule is 'cosin', expected one of constant, .*; did you mean cosine\?"):
        rate_factors("cosin", 0, 3)


def test_without_options_the_rate_is_lr_itself():
    factors = rate_factors("constant", 0, 3)
    assert [rate_at(0.1, factors, t) for t in (1, 3, 4, 10**9)] == [0.1] * 4


@pytest.mark.slow  # the first optimiser of PyTorch takes ten seconds
def test_lines_and_cosines_are_pytorchs(torch):
    from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR

    T, lr = 17, 0.3
    for name, make in (("linear", lambda o: LinearLR(o, 1.0, 0.0, T)), ("cosine", lambda o: CosineAnnealingLR(o, T))):
        optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr)
        scheduler, factors = make(optimiser), rate_factors(name, 0, T)
        for t in range(1, T + 1):
            np.testing.assert_allclose(rate_at(lr, factors, t), scheduler.get_last_lr()[0], rtol=1e-9)
            optimiser.step()
            scheduler.step()
