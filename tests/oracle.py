"""Slow loops transcribed from equations, the paper's and our own, letter by letter. They are the reference."""

from __future__ import annotations

import itertools
from math import factorial

import numpy as np


def multi_indices(n_i, n):
    """Every k of n_i non-negative integers with 1 ≤ |k| ≤ n, as a set."""
    return {k for k in itertools.product(range(n + 1), repeat=n_i) if 1 <= sum(k) <= n}


def taylor_variation(partial, x, epsilon, n):
    """Eq. dn. ``partial(k, x)`` gives ∂^k f(x) as a vector of outputs."""
    total = 0.0
    for k in multi_indices(len(x), n):
        epsilon_k, k_factorial = 1.0, 1
        for epsilon_i, k_i in zip(epsilon, k, strict=True):
            epsilon_k *= epsilon_i**k_i
            k_factorial *= factorial(k_i)
        for value in np.atleast_1d(partial(k, x)):
            total += epsilon_k * value**2 / k_factorial
    return total


def nearest(X, i, k, include_self):
    """S_k(x_i): indices of the k nearest points, ties by index, x_i itself first."""
    order = sorted((float(np.sum((X[i] - X[j]) ** 2)), j) for j in range(len(X)) if j != i)
    others = [j for _, j in order]
    return [i, *others][:k] if include_self else others[:k]


def neighbor_variance(X, Y, k, include_self=True):
    """Eq. Dhat2, summed over the columns of Y."""
    result = []
    for i in range(len(X)):
        around = nearest(X, i, k, include_self)
        total = 0.0
        for column in range(Y.shape[1]):
            mean = sum(Y[j, column] for j in around) / k
            total += sum((Y[j, column] - mean) ** 2 for j in around) / (k - 1)
        result.append(total)
    return np.array(result)


def perturbation_variance(f, x, noise, center):
    """Eq. Dhat for one point, given the draws."""
    values = [f(x + e) for e in noise]
    middle = f(x) if center == "point" else sum(values) / len(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1)


def one_hot(y):
    """One column per class."""
    classes = sorted(set(y))
    return np.array([[float(label == c) for c in classes] for label in y])


def bound(slopes, sizes, lipschitz, constant):
    """Eq. gb without its O(|S|⁴)."""
    return sum((abs(d) + lipschitz) ** 2 * s**3 * constant for d, s in zip(slopes, sizes, strict=True))


def class_suspicion(codes, p, around, w):
    """r of steep._suspects.score for classes, given the neighbours of each sample and the weight w."""
    n, n_classes = p.shape
    pi = [sum(1 for c in codes if c == k) / n for k in range(n_classes)]
    a = 0.25 + w / 2
    v = [
        [(sum(codes[j] == c for j in around[i]) + pi[c]) / (len(around[i]) + 1) for c in range(n_classes)]
        for i in range(n)
    ]
    t = true_classes((1 - a) * p + a * np.array(v), codes)
    u = [
        [(sum(t[j, c] for j in around[i]) + t[:, c].mean()) / (len(around[i]) + 1) for c in range(n_classes)]
        for i in range(n)
    ]
    z = (1 - a) * p + a * np.array(u)
    t = true_classes(z, codes)
    heard = min(max((0.47 - sum(z[i].argmax() != codes[i] for i in range(n)) / n) / 0.04, 0), 1)

    def margin(x, i):
        return heard * max(x[i, c] for c in range(n_classes) if c != codes[i]) ** 0.5, x[i, codes[i]] ** 0.5

    return np.array([
        margin(z, i)[0] - margin(z, i)[1] + heard * (margin(t, i)[0] - margin(t, i)[1]) / 2 for i in range(n)
    ])  # fmt: skip


def true_classes(x, codes):
    """t of steep._suspects.score, given probabilities of the classes."""
    n, n_classes = x.shape
    classes = range(n_classes)
    taken = [max(classes, key=lambda c: x[i, c]) for i in range(n)]
    middle = {c: np.median([x[i, c] for i in range(n) if taken[i] == c]) for c in set(taken)}
    sure = [i for i in range(n) if x[i, taken[i]] >= middle[taken[i]]]
    wrong = sum(taken[i] != codes[i] for i in sure) / len(sure)
    chance = np.array([
        [
            sum(taken[i] == c and codes[i] == label for i in sure)
            + 5 * (1 - wrong if label == c else wrong / (n_classes - 1))
            for c in classes
        ]
        for label in classes
    ])  # fmt: skip
    chance /= chance.sum(axis=0)
    x = (x + 1e-3) / (x + 1e-3).sum(axis=1, keepdims=True)
    y = x.copy()
    for _ in range(5):
        mixed = [[sum(chance[label, d] * y[i, d] for d in classes) for label in classes] for i in range(n)]
        y = np.array([
            [y[i, c] * sum(chance[label, c] * x[i, label] / mixed[i][label] for label in classes) for c in classes]
            for i in range(n)
        ])  # fmt: skip
        y /= y.sum(axis=1, keepdims=True)
    found = []
    for power in (1, 1.4, 2, 2.8):
        sharp = y**power / (y**power).sum(axis=1, keepdims=True)
        t = np.array([[sharp[i, c] * chance[codes[i], c] for c in classes] for i in range(n)])
        found.append((sum(np.log(t.sum(axis=1))), power, t / t.sum(axis=1, keepdims=True)))
    return max(found, key=lambda one: one[:2])[2]


def number_suspicion(y, p, around, w):
    """r of steep._suspects.numbers for one model."""
    n = len(y)
    m = [float(np.median([y[j] for j in around[i]])) for i in range(n)]
    e = [min(abs(y[i] - p[i]), abs(y[i] - (1 - w) * p[i] - w * m[i])) for i in range(n)]
    local = [(sum(e[j] for j in around[i]) + sum(e) / n) / (len(around[i]) + 1) for i in range(n)]
    spread = [abs(p[i] - m[i]) / 2 for i in range(n)]
    return np.array([e[i] / (0.3 * local[i] + 0.7 * np.median(local) + spread[i] / 2) for i in range(n)])


def logistic_losses(problem, theta, weights, l2):
    """f_b(θ_b) of a logistic problem of steep.convex, ``(n_problems,)``."""
    p = problem.probabilities(theta, problem.inputs[:].astype(np.float64))
    if problem.targets.ndim == 1:
        each = np.log(p[:, problem.targets, np.arange(p.shape[2])])
    else:
        each = np.log(np.where(problem.targets > 0.5, p, 1 - p)).sum(axis=1)
    penalty = l2 / 2 * (problem.held * (theta - problem.center) ** 2).sum(axis=(1, 2))
    return penalty - (each * weights).sum(axis=1)
