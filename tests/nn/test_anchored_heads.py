"""Heads held near the original one: J₀ of steep.nn.heads."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from oracle import logistic_losses
from steep.nn import HeadSearch, improve
from steep.nn.heads import Head, HeadGrid, HeadProblem, HeadSamples, HeadTask, fit_head

from .test_heads import objective

RNG = np.random.default_rng(0)
N, D = 300, 4
Z = RNG.normal(size=(N, D)) * [0.5, 1.0, 2.0, 1.0] + [3.0, 0.0, 1.0, -2.0]
WEIGHT = RNG.uniform(0.2, 4.0, N)
WEIGHT /= WEIGHT.mean()
CLASSES = (Z[:, 0] + RNG.normal(size=N) > 3).astype(int) + (Z[:, 2] + RNG.normal(size=N) > 1)
LABELS = np.stack([CLASSES > 0, CLASSES > 1], axis=1).astype(float)
NUMBERS = Z @ RNG.normal(size=(D, 2)) + RNG.normal(size=(N, 2))
TASKS = {
    "multiclass": (HeadTask("multiclass", 3), CLASSES),
    "multilabel": (HeadTask("multilabel", 2), LABELS),
    "regression": (HeadTask("regression", 2), NUMBERS),
}


def first_head(n_outputs):
    rng = np.random.default_rng(1)
    return Head(rng.normal(size=(n_outputs, D)), rng.normal(size=n_outputs))


def fitted(name, l2, **settings):
    task, targets = TASKS[name]
    first = settings.pop("original", first_head(task.n_outputs))
    return fit_head(HeadSamples(Z, targets), task, WEIGHT, l2, original=first, tolerance=1e-12, **settings)


@pytest.mark.parametrize("name", TASKS)
def test_a_head_held_by_ever_more_is_the_original_one(name):
    first = first_head(TASKS[name][0].n_outputs)
    held = fitted(name, 1e7, anchored=True, original=first)
    np.testing.assert_allclose(held.weight, first.weight, atol=1e-4)
    np.testing.assert_allclose(held.bias, first.bias, atol=1e-4)
    assert np.abs(fitted(name, 1e7, original=first).weight).max() < 1e-4


@pytest.mark.parametrize("name", TASKS)
def test_a_head_held_by_nothing_is_the_free_one(name):
    held, free = fitted(name, 1e-9, anchored=True), fitted(name, 1e-9)
    outputs = [head.outputs(Z) for head in (held, free)]
    if name == "multiclass":  # a constant added to all outputs of a sample says nothing
        outputs = [o - o.mean(axis=1, keepdims=True) for o in outputs]
    np.testing.assert_allclose(*outputs, atol=2e-3)


@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
def test_the_gradient_is_that_of_finite_differences(link):
    n_outputs, targets = (3, CLASSES) if link == "softmax" else (2, LABELS)
    problem = HeadProblem(Z, targets, n_outputs=n_outputs, link=link, anchor=first_head(n_outputs)).problem
    x, weights = np.random.default_rng(2).normal(size=(1, n_outputs, D + 1)), WEIGHT[None]
    gradient = problem.gradient(x, weights, 0.7)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-5
        (up,), (down,) = (logistic_losses(problem, x + sign * step, weights, 0.7) for sign in (1, -1))
        assert (up - down) / 2e-5 == pytest.approx(gradient[place], rel=1e-5, abs=1e-5)


def test_the_penalty_is_that_of_the_equation():
    first, other, mean = first_head(3), Head(RNG.normal(size=(3, D)), RNG.normal(size=3)), Z.mean(axis=0)
    problem = HeadProblem(Z, CLASSES, n_outputs=3, link="softmax", anchor=first)
    penalty = objective(problem, other, np.ones(N), 1.0) - objective(problem, other, np.ones(N), 0.0)
    moved, scale2 = other.weight - first.weight, Z.var(axis=0).mean()
    at_mean = other.bias - first.bias + moved @ mean
    assert penalty == pytest.approx((scale2 * (moved**2).sum() + (at_mean**2).sum()) / 2)


def test_an_anchored_ridge_head_is_the_minimum():
    task, targets = TASKS["regression"]
    first, mean, scale2, l2 = first_head(2), Z.mean(axis=0), Z.var(axis=0).mean(), 0.3

    def value(weight, bias):
        losses = (WEIGHT[:, None] * (Z @ weight.T + bias - targets) ** 2).sum() / (2 * N)
        moved, at_mean = weight - first.weight, bias - first.bias + (weight - first.weight) @ mean
        return losses + l2 / 2 * (scale2 * (moved**2).sum() + (at_mean**2).sum())

    head = fit_head(HeadSamples(Z, targets), task, WEIGHT, l2, original=first, anchored=True)
    best, rng = value(head.weight, head.bias), np.random.default_rng(3)
    for _ in range(50):
        nearby = value(head.weight + 1e-3 * rng.normal(size=(2, D)), head.bias + 1e-3 * rng.normal(size=2))
        assert nearby > best


def test_heads_fitted_together_are_those_fitted_alone():
    task, first = TASKS["multiclass"][0], first_head(3)
    samples, weights = HeadSamples(Z, CLASSES), [WEIGHT, 2 - WEIGHT / WEIGHT.max()]
    weights = [w / w.mean() for w in weights]
    weights = [np.ones(N), *weights]
    grid = HeadGrid(samples, task, weights, original=first, anchored=True)
    for l2, heads in grid.heads([1.0, 1e-2]):
        problem = HeadProblem(Z, CLASSES, n_outputs=3, link="softmax", anchor=first)
        for weight, head in zip(weights, heads, strict=True):
            alone = next(problem.path([weight], [l2], start=first))[1][0]
            np.testing.assert_allclose(head.weight, alone.weight, atol=2e-2 * np.abs(alone.weight).max())


# ------------------------------------------------------------------------------- improve


def network(value=None):
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Identity(), nn.Linear(D, 3))
    if value is not None:
        layers[1].weight.data.fill_(value)
    return layers


X, Y = torch.as_tensor(Z, dtype=torch.float32), torch.as_tensor(CLASSES)


def test_no_anchor_is_tried_without_doubt_unless_asked():
    data, grid = ((X[:200], Y[:200]), (X[200:], Y[200:])), HeadSearch((1.0, 1e-2), (5.0,), n_neighbors=(10,))
    usual, asked = (improve(network(), *data, search=replace(grid, anchor=a)) for a in (None, True))
    assert not usual.candidates["anchored"].any()
    assert asked.candidates["anchored"].sum() == 4
    assert len(asked.candidates) == len(usual.candidates) + 4


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "f1_macro", "average_precision"])
def test_every_score_tries_anchors_by_doubt_alone(scoring):
    data = (X[:200], Y[:200]), (X[200:], Y[200:])
    result = improve(network(), *data, scoring=scoring, search=HeadSearch(l2=(1e-2,), held_out=False))
    held = result.candidates[result.candidates["anchored"]]
    assert held["rule"].dropna().tolist() == [f"Doubted(gamma={gamma})" for gamma in (4.0, 8.0, 13.0)]
