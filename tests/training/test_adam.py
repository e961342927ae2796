import numpy as np

from tinyattn.training import Moments, adam


def run(gradients, **how):
    x = np.zeros_like(gradients[0])
    moments = Moments(np.zeros_like(x), np.zeros_like(x))
    path = []
    for step, g in enumerate(gradients, start=1):
        adam(x, g, moments, step, **how)
        path.append(x.copy())
    return np.array(path)


def test_as_in_the_paper_number_by_number(rng):
    gradients = rng.standard_normal((5, 3))
    b1, b2, lr, eps = 0.9, 0.98, 0.01, 1e-8
    x = m = v = np.zeros(3)
    expected = []
    for t, g in enumerate(gradients, start=1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        x = x - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
        expected.append(x)
    np.testing.assert_allclose(run(gradients, lr=lr), expected, rtol=1e-12)


def test_a_constant_gradient_moves_by_lr_each_step_whatever_its_size():
    """Also with beta2 .999: with (.9, .99) a missing correction would give the right first step by coincidence."""
    for size in (1e-3, 1.0, 1e4):
        for beta2 in (0.98, 0.999):
            path = run([np.array([size, -size])] * 4, lr=0.1, beta2=beta2)
            np.testing.assert_allclose(path[:, 0], [-0.1, -0.2, -0.3, -0.4], rtol=1e-4)
            np.testing.assert_allclose(path[:, 1], -path[:, 0])


def test_no_gradient_no_movement():
    assert not run([np.zeros(3)] * 3).any()


def test_float32_stays_and_the_gradient_is_left_alone():
    g = np.array([0.5, -2.0], np.float32)
    before = g.copy()
    assert run([g, g]).dtype == np.float32
    np.testing.assert_array_equal(g, before)
