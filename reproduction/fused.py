"""One perceptron of two layers of 32 ReLU units on many points: Adam on the mean squared error, full batch.

:mod:`reproduction.ensemble` writes every layer of all points to memory and reads it back; 50,000 points do not fit into
a cache. Here a block of points goes forward and backward before the next one starts, so that its layers stay in the
first-level cache. With ``[a; 1]`` the outputs of a layer and one, and δ its error, every product is of one form,

    C[r] (+)= Σ_k A[r, k] B[k],    r < rows,    C[r] and B[k] of 16 or 32 numbers

    forward     a = relu([a'; 1] [W; b])       r a point, k a unit
    backward    δ' = (δ Wᵀ) ∘ (a' > 0)         r a point, k a unit
    gradient    ∂[W; b] += [a'; 1]ᵀ δ          r a unit,  k a point

and one kernel, written in LLVM's vectors, does all of them. The training is that of ``train_ensemble`` with
``activation="relu"`` and ``init="glorot"``: the same start, the same steps, sums in another order.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from steep._progress import progress_bar
from steep._validation import FloatArray

UNITS, BLOCK = 32, 336  # points of a block: a multiple of every number of rows below
_LANES, _STRIDE = 16, 48  # numbers of a vector; floats from one point to the next, the one of [a; 1] at place 32
_FLOAT, _WORD = ir.FloatType(), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, _LANES)


def _kernel(rows: int, vectors: int, end: str) -> Any:
    """C[r] = end(Σ_k A[r, k] B[k]); ``end`` is "store", "relu", "mask" (zero where M is not positive) or "add"."""

    @intrinsic  # type: ignore[untyped-decorator]
    def multiply(context: Any, C: Any, A: Any, a_row: Any, a_step: Any, B: Any, b_step: Any, n: Any, M: Any) -> Any:
        # Addresses, and distances in floats; C and M go on by _STRIDE from row to row, or by 32 for "add".
        signature = types.void(*[types.int64] * 8)

        def build(_: Any, b: Any, __: Any, arguments: Any) -> Any:
            c, a, row, step, base, b_step_, count, m = arguments

            def at(address: Any, offset: Any, kind: Any) -> Any:
                place = b.add(address, b.mul(offset, _WORD(4)))
                return b.inttoptr(place, kind.as_pointer())

            def read(address: Any, offset: Any) -> Any:
                return b.load(at(address, offset, _VECTOR), align=4)

            kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
            fma = cgutils.get_or_insert_function(b.module, kind, f"llvm.fma.v{_LANES}f32")
            zero = ir.Constant(_VECTOR, [0.0] * _LANES)
            sums = [cgutils.alloca_once_value(b, zero) for _ in range(rows * vectors)]
            with cgutils.for_range(b, count) as loop:
                k = loop.index
                right = [read(base, b.add(b.mul(k, b_step_), _WORD(v * _LANES))) for v in range(vectors)]
                for r in range(rows):
                    place = b.add(b.mul(_WORD(r), row), b.mul(k, step))
                    one = b.insert_element(ir.Constant(_VECTOR, ir.Undefined), b.load(at(a, place, _FLOAT)), _WORD(0))
                    mask = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
                    left = b.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), mask)
                    for v in range(vectors):
                        total = sums[r * vectors + v]
                        b.store(b.call(fma, [left, right[v], b.load(total)]), total)
            for r in range(rows):
                for v in range(vectors):
                    place = _WORD(r * (UNITS if end == "add" else _STRIDE) + v * _LANES)
                    value = b.load(sums[r * vectors + v])
                    if end == "add":
                        value = b.fadd(value, read(c, place))
                    elif end in ("relu", "mask"):
                        sign = value if end == "relu" else read(m, place)
                        value = b.select(b.fcmp_ordered(">", sign, zero), value, zero)
                    b.store(value, at(c, place, _VECTOR), align=4)
            return _.get_dummy_value()

        return signature, build

    return multiply


_first_relu = _kernel(12, 2, "relu")
_outputs = _kernel(16, 1, "store")
_backward = _kernel(12, 2, "mask")
_gradient_first, _gradient, _gradient_outputs = _kernel(4, 2, "add"), _kernel(11, 2, "add"), _kernel(2, 2, "add")


@numba.njit(error_model="numpy")
def _address(array):
    return np.int64(array.ctypes.data)


@numba.njit
def _aligned(rows, columns):
    whole = np.zeros(rows * columns + 16, np.float32)
    first = (-(whole.ctypes.data // 4)) % 16
    return whole[first : first + rows * columns].reshape(rows, columns)


@numba.njit
def _layer():
    return _aligned(BLOCK, 48)


@numba.njit(error_model="numpy")
def _train(X, T, n_points, w1, w2, w3, m1, m2, m3, v1, v2, v3, first_step, last_step, rate):
    h1, h2, o, e1, e2 = _layer(), _layer(), _layer(), _layer(), _layer()
    h1[:, 32] = 1
    h2[:, 32] = 1
    w2t, w3t, w3p, u1, u2 = _aligned(32, 32), _aligned(2, 32), _aligned(33, 16), _aligned(4, 32), _aligned(33, 32)
    g1, g2, g3, g3t = _aligned(4, 32), _aligned(33, 32), _aligned(33, 2), _aligned(2, 32)
    ph1, ph2, po, pe1, pe2 = _address(h1), _address(h2), _address(o), _address(e1), _address(e2)
    pX, pw1, pw2, pw2t, pw3, pw3t = _address(X), _address(u1), _address(u2), _address(w2t), _address(w3p), _address(w3t)
    pg1, pg2, pg3t = _address(g1), _address(g2), _address(g3t)
    scale = np.float32(1.0 / n_points)  # 2 / n_outputs / n, n_outputs = 2
    row = _STRIDE * 4
    for step in range(first_step, last_step + 1):
        for i in range(32):
            for j in range(32):
                w2t[j, i] = w2[i, j]
            for j in range(2):
                w3t[j, i] = w3[i, j]
        w3p[:, :2] = w3
        u1[:] = w1
        u2[:] = w2
        g1[:] = 0
        g2[:] = 0
        g3t[:] = 0
        b0 = np.float32(0)
        b1 = np.float32(0)
        for start in range(0, len(X), BLOCK):
            px = pX + start * 16
            for r in range(0, BLOCK, 12):
                _first_relu(ph1 + r * row, px + r * 16, 4, 1, pw1, 32, 4, 0)
            for r in range(0, BLOCK, 12):
                _first_relu(ph2 + r * row, ph1 + r * row, 48, 1, pw2, 32, 33, 0)
            for r in range(0, BLOCK, 16):
                _outputs(po + r * row, ph2 + r * row, 48, 1, pw3, 16, 33, 0)
            c0 = np.float32(0)
            c1 = np.float32(0)
            for s in range(BLOCK):
                inside = scale if start + s < n_points else np.float32(0)
                o[s, 0] = (o[s, 0] - T[start + s, 0]) * inside
                o[s, 1] = (o[s, 1] - T[start + s, 1]) * inside
                c0 += o[s, 0]
                c1 += o[s, 1]
            b0 += c0
            b1 += c1
            _gradient_outputs(pg3t, po, 1, 48, ph2, 48, BLOCK, 0)
            for r in range(0, BLOCK, 12):
                _backward(pe2 + r * row, po + r * row, 48, 1, pw3t, 32, 2, ph2 + r * row)
            for r in range(0, 33, 11):
                _gradient(pg2 + r * 128, ph1 + r * 4, 1, 48, pe2, 48, BLOCK, 0)
            for r in range(0, BLOCK, 12):
                _backward(pe1 + r * row, pe2 + r * row, 48, 1, pw2t, 32, 32, ph1 + r * row)
            _gradient_first(pg1, px, 1, 4, pe1, 48, BLOCK, 0)
        for i in range(32):
            g3[i, 0] = g3t[0, i]
            g3[i, 1] = g3t[1, i]
        g3[32, 0] = b0
        g3[32, 1] = b1
        _adam(w1, g1, m1, v1, step, rate)
        _adam(w2, g2, m2, v2, step, rate)
        _adam(w3, g3, m3, v3, step, rate)


@numba.njit(error_model="numpy")
def _adam(w, g, m, v, step, rate):
    size = np.float32(rate / (1 - 0.9**step))
    root = np.float32((1 - 0.999**step) ** -0.5)
    for i in range(w.shape[0]):
        for j in range(w.shape[1]):
            m[i, j] += (g[i, j] - m[i, j]) * np.float32(1 - 0.9)
            v[i, j] = v[i, j] * np.float32(0.999) + g[i, j] * g[i, j] * np.float32(1 - 0.999)
            w[i, j] -= size * m[i, j] / (np.sqrt(v[i, j]) * root + np.float32(1e-8))


# Epochs between two moves of the progress bar.
_CHUNK = 500


def train_perceptron(
    X: FloatArray, y: FloatArray, *, epochs: int, learning_rate: float, seed: int, progress: bool | None = None
) -> list[Any]:
    """Train one network; the layers [W; b] of :func:`train_ensemble` with one member of that seed.

    Parameters
    ----------
    X, y : ndarray of shape (n, 3) and (n, 2)
        Points and values.
    epochs, learning_rate, seed
        As in ``train_ensemble``.
    progress : bool, optional
        Whether to show a bar.

    Returns
    -------
    list of ndarray of shape (n_inputs + 1, n_outputs)
    """
    n = len(X)
    inputs, targets = (
        np.zeros((-(-n // BLOCK) * BLOCK, 4), np.float32),
        np.zeros((-(-n // BLOCK) * BLOCK, 2), np.float32),
    )
    inputs[:n, :3], inputs[:, 3], targets[:n] = X, 1, y
    weights = _glorot([3, UNITS, UNITS, 2], seed)
    moments = [np.zeros_like(weight) for weight in (*weights, *weights)]
    with progress_bar(total=epochs, label="epochs", shown=progress) as bar:
        for done in range(0, epochs, _CHUNK):
            last = min(done + _CHUNK, epochs)
            _train(inputs, targets, n, *weights, *moments, done + 1, last, learning_rate)
            bar.update(last - done)
    return weights


def _glorot(shape: list[int], seed: int) -> list[Any]:
    """The start of ``train_ensemble`` with ``init="glorot"``."""
    import torch

    generator, layers = torch.Generator().manual_seed(seed), []
    for n_in, n_out in pairwise(shape):
        draw = torch.rand(n_in + 1, n_out, generator=generator, dtype=torch.float64) * 2 - 1
        draw[-1] = 0
        layers.append((draw * (6 / (n_in + n_out)) ** 0.5).float().numpy())
    return layers


def predict_perceptron(weights: list[Any], X: FloatArray) -> FloatArray:
    """Outputs of a network, ``(n, 2)``."""
    parts = []
    for part in np.array_split(np.asarray(X, np.float32), 1 + len(X) // 4000):
        values = part
        for weight in weights[:-1]:
            values = np.maximum(values @ weight[:-1] + weight[-1], 0)
        parts.append(values @ weights[-1][:-1] + weights[-1][-1])
    outputs: FloatArray = np.concatenate(parts).astype(np.float64)
    return outputs
