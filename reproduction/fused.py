"""One perceptron of two layers of 32 ReLU units on many points: Adam on the mean squared error, full batch.

:mod:`reproduction.ensemble` writes every layer of all points to memory and reads it back; 50,000 points do not fit into
a cache. Here a block of points goes forward and backward before the next one starts, so that its layers stay in the
first-level cache. With ``[a; 1]`` the outputs of a layer and one, and δ its error, every product is of one form,

    C[r] (+)= Σ_k A[r, k] B[k],    r < rows,    C[r] and B[k] of 16 or 32 numbers

    forward     a = relu([a'; 1] [W; b])       r a point, k a unit
    backward    δ' = (δ Wᵀ) ∘ (a' > 0)         r a point, k a unit
    gradient    ∂[W; b] += [a'; 1]ᵀ δ          r a unit,  k a point

and one kernel, written in LLVM's vectors, does all of them. The training is that of ``train_ensemble``:
the same start, the same steps, sums in another order.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils as _cgutils
from numba.core import types
from numba.extending import intrinsic

from reproduction.ensemble import train_ensemble
from steep._progress import progress_bar
from steep._validation import FloatArray

UNITS, BLOCK = 32, 336  # points of a block: a multiple of every number of rows below
_LANES, _STRIDE = 16, 48  # numbers of a vector; floats from one point to the next, the one of [a; 1] at place 32
_cg: Any = _cgutils  # it has no types
_FLOAT, _WORD = ir.FloatType(), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, _LANES)


def _kernel(rows: int, vectors: int, end: str) -> Any:
    """C[r] = end(Σ_k A[r, k] B[k]); ``end`` is "store", "relu", "mask" (zero where M is not positive) or "add"."""

    @intrinsic
    def multiply(_: Any, C: Any, A: Any, a_row: Any, a_step: Any, B: Any, b_row: Any, n: Any, M: Any) -> Any:
        # Addresses, and distances in floats; rows of C and M are _STRIDE apart, 32 with "add".
        signature = types.void(*[types.int64] * 8)

        def build(generator: Any, b: Any, _: Any, arguments: Any) -> Any:
            c, a, row, step, base, b_step, count, m = arguments

            def at(address: Any, offset: Any, kind: Any) -> Any:
                place = b.add(address, b.mul(offset, _WORD(4)))
                return b.inttoptr(place, kind.as_pointer())

            def read(address: Any, offset: Any) -> Any:
                return b.load(at(address, offset, _VECTOR), align=4)

            kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
            fma = _cg.get_or_insert_function(b.module, kind, f"llvm.fma.v{_LANES}f32")
            zero = ir.Constant(_VECTOR, [0.0] * _LANES)
            sums = [_cg.alloca_once_value(b, zero) for _ in range(rows * vectors)]
            with _cg.for_range(b, count) as loop:
                k = loop.index
                right = [read(base, b.add(b.mul(k, b_step), _WORD(v * _LANES))) for v in range(vectors)]
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
            return generator.get_dummy_value()

        return signature, build

    return multiply


_forward = _kernel(12, 2, "relu")
_outputs = _kernel(16, 1, "store")
_backward = _kernel(12, 2, "mask")
_gradient_first, _gradient, _gradient_last = _kernel(4, 2, "add"), _kernel(11, 2, "add"), _kernel(2, 2, "add")


@numba.njit(cache=True)
def _address(array: Any) -> Any:
    return np.int64(array.ctypes.data)


@numba.njit(cache=True)
def _aligned(rows: int, columns: int) -> Any:
    """Zeros that start at a line of the cache."""
    whole = np.zeros(rows * columns + 16, np.float32)
    first = (-(whole.ctypes.data // 4)) % 16
    return whole[first : first + rows * columns].reshape(rows, columns)


@numba.njit(cache=True)
def _train(
    inputs: Any, targets: Any, n_points: int, weights: Any, moments: Any, steps: tuple[int, int], rate: float
) -> None:
    """Steps ``steps[0]`` to ``steps[1]`` of Adam on ``weights``, in place."""
    layers = (_aligned(BLOCK, 48), _aligned(BLOCK, 48), _aligned(BLOCK, 48), _aligned(BLOCK, 48), _aligned(BLOCK, 48))
    layers[0][:, UNITS] = 1
    layers[1][:, UNITS] = 1
    # W_1, W_2, W_3 of 16 outputs, W_2ᵀ and W_3ᵀ; then the gradients, the last one transposed.
    used = (_aligned(4, 32), _aligned(33, 32), _aligned(33, 16), _aligned(32, 32), _aligned(2, 32))
    gradients = (_aligned(4, 32), _aligned(33, 32), _aligned(2, 32))
    bias = np.zeros(2, np.float32)
    last = np.zeros((33, 2), np.float32)
    for step in range(steps[0], steps[1] + 1):
        used[0][:] = weights[0]
        used[1][:] = weights[1]
        used[2][:, :2] = weights[2]
        used[3][:] = weights[1][:UNITS].T
        used[4][:] = weights[2][:UNITS].T
        for gradient in gradients:
            gradient[:] = 0
        bias[:] = 0
        for start in range(0, len(inputs), BLOCK):
            _block(inputs, targets, start, n_points, layers, used, gradients, bias)
        last[:UNITS] = gradients[2].T
        last[UNITS] = bias
        _adam(weights[0], gradients[0], moments[0], moments[3], step, rate)
        _adam(weights[1], gradients[1], moments[1], moments[4], step, rate)
        _adam(weights[2], last, moments[2], moments[5], step, rate)


@numba.njit(cache=True)
def _block(
    inputs: Any, targets: Any, start: int, n_points: int, layers: Any, used: Any, gradients: Any, bias: Any
) -> None:
    """Forward and backward pass of one block of points; adds to the gradients."""
    a1, a2, o, e1, e2 = (_address(layers[0]), _address(layers[1]), _address(layers[2]), _address(layers[3]),
                         _address(layers[4]))  # fmt: skip
    w1, w2, w3, w2t, w3t = (_address(used[0]), _address(used[1]), _address(used[2]), _address(used[3]),
                            _address(used[4]))  # fmt: skip
    x, row, outputs = _address(inputs) + start * 16, _STRIDE * 4, layers[2]
    for r in range(0, BLOCK, 12):
        _forward(a1 + r * row, x + r * 16, 4, 1, w1, 32, 4, 0)
    for r in range(0, BLOCK, 12):
        _forward(a2 + r * row, a1 + r * row, 48, 1, w2, 32, 33, 0)
    for r in range(0, BLOCK, 16):
        _outputs(o + r * row, a2 + r * row, 48, 1, w3, 16, 33, 0)
    total0, total1 = np.float32(0), np.float32(0)
    for s in range(BLOCK):
        # 2 (o − y) / (n · 2 outputs); the points that fill up the last block count nothing.
        inside = np.float32(1.0 / n_points) if start + s < n_points else np.float32(0)
        outputs[s, 0] = (outputs[s, 0] - targets[start + s, 0]) * inside
        outputs[s, 1] = (outputs[s, 1] - targets[start + s, 1]) * inside
        total0 += outputs[s, 0]
        total1 += outputs[s, 1]
    bias[0] += total0
    bias[1] += total1
    _gradient_last(_address(gradients[2]), o, 1, 48, a2, 48, BLOCK, 0)
    for r in range(0, BLOCK, 12):
        _backward(e2 + r * row, o + r * row, 48, 1, w3t, 32, 2, a2 + r * row)
    for r in range(0, 33, 11):
        _gradient(_address(gradients[1]) + r * 128, a1 + r * 4, 1, 48, e2, 48, BLOCK, 0)
    for r in range(0, BLOCK, 12):
        _backward(e1 + r * row, e2 + r * row, 48, 1, w2t, 32, 32, a1 + r * row)
    _gradient_first(_address(gradients[0]), x, 1, 4, e1, 48, BLOCK, 0)


@numba.njit(cache=True)
def _adam(weights: Any, gradient: Any, first: Any, second: Any, step: int, rate: float) -> None:
    size, root = np.float32(rate / (1 - 0.9**step)), np.float32((1 - 0.999**step) ** -0.5)
    for i in range(weights.shape[0]):
        for j in range(weights.shape[1]):
            first[i, j] += (gradient[i, j] - first[i, j]) * np.float32(1 - 0.9)
            second[i, j] = second[i, j] * np.float32(0.999) + gradient[i, j] ** 2 * np.float32(1 - 0.999)
            weights[i, j] -= size * first[i, j] / (np.sqrt(second[i, j]) * root + np.float32(1e-8))


def train_perceptron(
    X: FloatArray, y: FloatArray, *, epochs: int, learning_rate: float, seed: int, progress: bool | None = None
) -> list[Any]:
    """Train one network; the layers [W; b] of :func:`train_ensemble` with one member of that seed."""
    n = len(X)
    inputs, targets = (np.zeros((-(-n // BLOCK) * BLOCK, columns), np.float32) for columns in (4, 2))
    inputs[:n, :3], inputs[:, 3], targets[:n] = X, 1, y
    start = train_ensemble(X[:1], y[:1], seeds=[seed], layers=(UNITS, UNITS), epochs=0, learning_rate=learning_rate)
    weights = tuple(np.ascontiguousarray(weight[0].numpy()) for weight in start.weights)
    moments = tuple(np.zeros_like(weight) for weight in (*weights, *weights))
    with progress_bar(total=epochs, label="epochs", shown=progress) as bar:
        for done in range(0, epochs, 500):
            steps = done + 1, min(done + 500, epochs)
            _train(inputs, targets, n, weights, moments, steps, learning_rate)
            bar.update(steps[1] - done)
    return list(weights)


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
