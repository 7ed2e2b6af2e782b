"""Data of the tests of steep.dask: small, but cut into several groups where a task may use little memory."""

import numpy as np

SMALL = {"steep.task-memory": "1 MiB"}  # about 2,600 rows of 8 float32 columns for 8 neighbours


def blobs(n_rows=9_000, n_features=8, seed=0):
    """Points of intrinsic dimension 4 and three classes that meet along curved borders."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_rows, 4)) + 2 * rng.integers(0, 3, (n_rows, 1))
    X = np.tanh(z / 3) @ rng.normal(size=(4, n_features)) + 0.05 * rng.normal(size=(n_rows, n_features))
    y = (z[:, 0] * z[:, 1] > 2).astype(int) + (z[:, 2] > 1)
    return X.astype(np.float32), y
