"""Slow loops transcribed from the paper's equations, letter by letter. They are the reference."""

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
