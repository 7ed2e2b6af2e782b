"""The generalization bound, Eq. gb: why steep regions need smaller cells.

    J(θ) ≤ Σ_i (|f'(x_i)| + K_θ)² c |S_i|³ + O(|S_i|⁴)

|S_i| is the size of the cell around x_i and K_θ the Lipschitz constant of the network. The constant c
is 1/4 in the paper's text and 1/3 in its appendix. ∫ over the cell of |x − x_i|² gives

    "any"      1/3    wherever x_i lies in its cell
    "centred"  1/4    x_i in the middle, |x − x_i| bounded by |S_i|/2
    "exact"    1/12   x_i in the middle, integrated exactly
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from steep._validation import check_choice, check_points, check_real, check_vector
from steep.exceptions import InputError, InputTypeError

CONSTANTS = {"any": 1 / 3, "centred": 1 / 4, "exact": 1 / 12}

# Lipschitz constants of the activations themselves.
ACTIVATIONS = {"identity": 1.0, "relu": 1.0, "tanh": 1.0, "sigmoid": 0.25}


def generalization_bound(
    derivative: Any, cell_sizes: Any, lipschitz: float, *, constant: Literal["any", "centred", "exact"] = "any"
) -> float:
    """Bound the generalization error of a network in one dimension (Eq. gb), without its last term.

    Parameters
    ----------
    derivative : array-like of shape (n_samples,)
        f'(x_i).
    cell_sizes : array-like of shape (n_samples,)
        ``|S_i|`` as a share of the domain: at least 0, adding up to one.
    lipschitz : float
        K_θ ≥ 0; see :func:`lipschitz_constant`.
    constant : {"any", "centred", "exact"}, default "any"
        Which constant holds: 1/3, 1/4 or 1/12 (see docs/errata.md).

    Returns
    -------
    float

    Examples
    --------
    >>> generalization_bound([3.0, 0.0], [0.5, 0.5], 1.0, constant="centred")
    0.53125
    """
    slopes = np.abs(check_vector(derivative, name="derivative"))
    sizes = check_vector(cell_sizes, name="cell_sizes", n_samples=len(slopes), minimum=0.0)
    if sizes.sum() > 1 + 1e-9:
        raise InputError(
            f"cell_sizes add up to {sizes.sum():g}; expected shares of the domain that add up to at most 1; divide "
            "them by the domain's length"
        )
    lipschitz = check_real(lipschitz, name="lipschitz", minimum=0.0)
    check_choice(constant, name="constant", choices=tuple(CONSTANTS))
    with np.errstate(over="ignore"):
        bound = float(CONSTANTS[constant] * np.sum((slopes + lipschitz) ** 2 * sizes**3))
    if not np.isfinite(bound):
        raise InputError(
            f"the bound is too large for a float: slopes up to {slopes.max():g} and lipschitz={lipschitz:g}; scale f"
        )
    return bound


def lipschitz_constant(weights: Iterable[Any], *, activation: str = "relu") -> float:
    """Bound K_θ of a multi-layer perceptron by the product of its layers' spectral norms.

    Parameters
    ----------
    weights : iterable of 2-D arrays
        Weight matrices of the layers, biases left out; transposed or not makes no difference.
    activation : {"relu", "tanh", "sigmoid", "identity"}, default "relu"
        Applied between the layers.

    Examples
    --------
    >>> lipschitz_constant([[[3.0, 0.0], [0.0, 1.0]], [[2.0, 0.0]]])
    6.0
    """
    check_choice(activation, name="activation", choices=tuple(ACTIVATIONS))
    # A sparse matrix and an array without dimensions say they can be iterated over, and cannot.
    hollow = hasattr(weights, "toarray") or getattr(weights, "shape", None) == ()
    if hollow or not isinstance(weights, Iterable):
        raise InputTypeError(f"weights is a {type(weights).__name__}; expected a list of weight matrices")
    norms = [float(np.linalg.norm(check_points(w, name="weights"), ord=2)) for w in weights]
    if not norms:
        raise InputError("weights is empty; expected at least one weight matrix")
    return float(np.prod(norms) * ACTIVATIONS[activation] ** (len(norms) - 1))
