"""Data of the neighbour benchmark: those the engine was developed on. The others are in neighbor_data_unseen.py.

Each entry makes points and labels. Points are float32. Labels serve the correlation of local variance.
"""

from __future__ import annotations

from functools import partial

import numpy as np


def feature_like(n, *, n_features=64, n_classes=10, latent=12, spread=0.5, seed=0):
    """Clusters in a 12-dimensional latent space seen through a ReLU network."""
    rng = np.random.default_rng(seed)
    modes = rng.normal(size=(3 * n_classes, latent))
    w1, b1 = rng.normal(size=(latent, 128)) / np.sqrt(latent), 0.3 * rng.normal(size=128)
    w2, b2 = rng.normal(size=(128, n_features)) / np.sqrt(128), 0.1 * rng.normal(size=n_features)
    mode = rng.integers(len(modes), size=n)
    z = modes[mode] + spread * rng.normal(size=(n, latent))
    X = np.empty((n, n_features), np.float32)
    for s in range(0, n, 100_000):
        X[s : s + 100_000] = np.maximum(np.maximum(z[s : s + 100_000] @ w1 + b1, 0) @ w2 + b2, 0)
    return X, mode % n_classes


def low_rank_clusters(n, *, n_features=64, clusters=40, rank=12, seed=0):
    """Flat clusters of rank 12, each in a direction of its own, with a little noise, cut off at 0."""
    rng = np.random.default_rng(seed)
    middle = 2 * rng.normal(size=(clusters, n_features))
    axes = rng.normal(size=(clusters, rank, n_features)) / np.sqrt(rank)
    mode = rng.integers(clusters, size=n)
    X = np.empty((n, n_features), np.float32)
    for c in range(clusters):
        mine = np.flatnonzero(mode == c)
        X[mine] = middle[c] + rng.normal(size=(len(mine), rank)) @ axes[c]
    X += 0.1 * rng.standard_normal(X.shape, dtype=np.float32)
    return np.maximum(X, 0), mode % 10


def cube(n, seed=0):
    """Three independent columns."""
    X = np.random.default_rng(seed).random((n, 3), dtype=np.float32)
    return X, (X[:, 0] > 0.5).astype(int)


def flat(n, n_features, seed=0):
    """Independent normal columns, in which all points are about equally far from each other."""
    X = np.random.default_rng(seed).standard_normal((n, n_features), dtype=np.float32)
    return X, (X[:, 0] > 0).astype(int)


def mnist_pixels():
    """The 60,000 training pictures as they are; STEEP_DATA says where MNIST is."""
    from reproduction.data import Data

    data = Data().mnist()
    return data.x_train.reshape(len(data.x_train), -1).astype(np.float32), data.y_train.astype(int)


def mnist_features(seed=0):
    """Features before the head of a LeNet-5 trained for two epochs."""
    import torch

    from reproduction.data import Data
    from reproduction.networks import lenet5

    data = Data().mnist()
    images = torch.as_tensor(data.x_train[:, None], dtype=torch.float32) / 255
    labels = torch.as_tensor(data.y_train.astype(np.int64))
    network = lenet5(seed)
    train(network, images, labels, epochs=2, seed=seed)
    return features(network, images), data.y_train.astype(int)


def cifar():
    from reproduction.data import Data

    data = Data().cifar10()
    return data.x_train, data.y_train.astype(int)


def cifar_pixels():
    """50,000 pictures of 3,072 numbers."""
    images, labels = cifar()
    return images.reshape(len(images), -1).astype(np.float32), labels


def train(network, images, labels, *, epochs, seed):
    """A few plain epochs of Adam."""
    import torch

    order = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(network.parameters(), 1e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images), generator=order).split(128):
            adam.zero_grad()
            torch.nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            adam.step()


def features(network, images):
    """What goes into the last layer."""
    import torch

    with torch.no_grad():
        return torch.cat([network[:-1](part) for part in images.split(1000)]).numpy()


DEVELOPMENT = {
    "features-50k": partial(feature_like, 50_000),
    "clusters-50k": partial(low_rank_clusters, 50_000),
    "mnist-pixels": mnist_pixels,
    "mnist-features": mnist_features,
    "cifar-pixels": cifar_pixels,
    "flat-20k": partial(flat, 20_000, 64),
    "cube-1m": partial(cube, 1_000_000),
    "features-1m": partial(feature_like, 1_000_000),
}
