"""The peers that benchmarks/groups.py writes again: against the equations of their papers."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from steep.nn.heads import Head

FILE = Path(__file__).parents[2] / "benchmarks" / "group_rivals.py"
spec = importlib.util.spec_from_file_location("group_rivals", FILE)
rivals = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rivals)


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    y = np.array([0] * 60 + [1] * 30)
    x = (rng.normal(size=(90, 3)) + y[:, None]).astype(np.float32)
    return x, y, Head(rng.normal(size=(2, 3)), rng.normal(size=2))


def objective(head, x, y, mu, l2, first):
    """Σ μ ℓ + ½ λ s² ‖θ − θ₀‖², the bias on the scale of the features."""
    logits = x @ head.weight.T + head.bias
    losses = np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(y)), y]
    s2 = x.astype(float).var(axis=0).mean()
    gap = s2 * ((head.weight - first.weight) ** 2).sum() + ((head.bias - first.bias) ** 2).sum()
    return (mu * losses).sum() + l2 / 2 * gap


def test_afr_weights_fall_with_the_probability_of_the_own_class_and_its_size():
    own, classes = np.array([0.1, 0.9, 0.4, 0.4]), np.array([0, 0, 0, 1])
    weights = rivals.afr_weights(own, classes, 4.0)
    assert weights.mean() == pytest.approx(1.0)
    assert weights[0] / weights[1] == pytest.approx(np.exp(4.0 * 0.8))
    assert weights[3] / weights[2] == pytest.approx(3.0)


@pytest.mark.parametrize("l2", [0.01, 1.0])
def test_afr_ends_at_the_minimum_of_its_equation(case, l2):
    x, y, first = case
    weight = rivals.afr_weights(rivals.probabilities(first, x)[np.arange(90), y], y, 5.0)
    found = rivals.fit_towards(x, y, weight, l2, first)
    least = objective(found, x, y, weight / 90, l2, first)
    rng = np.random.default_rng(1)
    for _ in range(30):
        other = Head(found.weight + 0.1 * rng.normal(size=(2, 3)), found.bias + 0.1 * rng.normal(size=2))
        assert objective(other, x, y, weight / 90, l2, first) > least
    assert least < objective(first, x, y, weight / 90, l2, first)


def test_a_strong_regulariser_keeps_the_first_head(case):
    x, y, first = case
    found = rivals.fit_towards(x, y, np.ones(90), 1e6, first)
    np.testing.assert_allclose(found.weight, first.weight, atol=1e-3)
    np.testing.assert_allclose(found.bias, first.bias, atol=1e-3)


def test_jtt_weighs_the_mistakes_up_and_nothing_else():
    weights = rivals.jtt_weights(np.array([True, False, False, True]), 20.0)
    np.testing.assert_allclose(weights / weights.min(), [20, 1, 1, 20])


def test_dfr_gives_every_group_the_same_mass_and_averages_balanced_subsets(case):
    x, y, first = case
    groups = np.array([0] * 50 + [1] * 10 + [2] * 30)
    weights = rivals.mass_weights(groups)
    assert [weights[groups == g].sum() for g in range(3)] == pytest.approx([30.0] * 3)
    settings = [setting for setting, _ in rivals.dfr(x, y, groups, first)]
    assert len(settings) == 2 * len(rivals.L2) - 1
    again = [head.weight for _, head in rivals.dfr(x, y, groups, first)]
    np.testing.assert_array_equal(again[-1], [head.weight for _, head in rivals.dfr(x, y, groups, first)][-1])
