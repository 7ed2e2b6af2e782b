"""What a training shows when, and how much each sample counts: plain training, and the rivals of Table 7.

Active Bias (Chang, Learned-Miller and McCallum 2017), weights by prediction variance (SGD-WPV). With H_i the
probabilities p(y_i | x_i) seen in past epochs,

    std_i = √( var(H_i) + var(H_i)² / (|H_i| − 1) ),     w_i ∝ std_i + ε,    ε = mean_j std_j

brought to mean one over the training set; equal weights during a burn-in.

Transfer-learned curriculum, TCL (Hacohen and Weinshall 2019). A classifier on the features of a *trained* network
scores each sample by the margin of its class; sorted easiest first, class by class in equal shares, step i draws from
the first

    g(i) = min(start · growth^⌊i / step_length⌋, 1) · N

Against the public code of both: the weights of Active Bias agree (√(var + var²/(n − 1)) plus its mean, brought to mean
one; ``songhwanjun/ActiveBias``), and so do the pacing of TCL (4 %, factor 1.9, every 100 steps) and its balance of the
classes (``GuyHacohen/curriculum_learning``). Two things differ, on purpose or by little:

- their score of a sample is the Platt probability of its own class, from an SVM on raw features of an Inception network
  trained on ImageNet; ours is the margin of an SVM on standardised features of a network trained on the same data
  before (their "self-taught" variant), which needs no other data set;
- they round the size of the first part up, we round it to the nearest number.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import Tensor

from steep._validation import FloatArray, check_count, check_real


def fingerprint(*tensors: Tensor) -> str:
    """Short checksum of every value in some tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(np.ascontiguousarray(tensor.numpy()).data)
    return digest.hexdigest()[:16]


class Curriculum:
    """Plain training: every sample once an epoch in random order, all weights one."""

    def __init__(self, n_samples: int, batch_size: int) -> None:
        self.n_samples = check_count(n_samples, name="n_samples")
        self.batch_size = check_count(batch_size, name="batch_size")

    @property
    def n_steps(self) -> int:
        """Steps of an epoch."""
        return -(-self.n_samples // self.batch_size)

    def settings(self) -> dict[str, Any]:
        """What distinguishes it from another curriculum: its kind and all its public attributes."""
        public = {name: value for name, value in vars(self).items() if not name.startswith("_") and not callable(value)}
        plain = {name: fingerprint(value) if isinstance(value, Tensor) else value for name, value in public.items()}
        return {"kind": type(self).__name__, **plain}

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Yield the rows of each step."""
        yield from torch.split(torch.randperm(self.n_samples, generator=generator), self.batch_size)

    def weights(self, rows: Tensor, epoch: int) -> Tensor | None:
        """Weights of the samples of a step; None is one for each."""
        return None

    def observe(self, rows: Tensor, probability: Tensor) -> None:
        """Take note of the probability the network gave the right class."""

    def state(self) -> dict[str, Tensor]:
        """What has to be kept for a stopped run to continue."""
        return {}

    def load(self, state: dict[str, Tensor]) -> None:
        """Take up what :meth:`state` kept."""


class ActiveBias(Curriculum):
    """Weight samples by how much their predictions varied so far (SGD-WPV)."""

    def __init__(self, n_samples: int, batch_size: int, *, burn_in: int = 5) -> None:
        super().__init__(n_samples, batch_size)
        self.burn_in = check_count(burn_in, name="burn_in", minimum=2)
        # Count, sum and sum of squares of each history: all that its variance needs.
        self._moments = torch.zeros(3, n_samples, dtype=torch.float64)

    def observe(self, rows: Tensor, probability: Tensor) -> None:
        """Add one probability of the right class to the history of each sample."""
        p = probability.detach().double()
        self._moments[:, rows] += torch.stack([torch.ones_like(p), p, p**2])

    def deviations(self) -> Tensor:
        """std_i of every sample; 0 where fewer than two predictions are known."""
        count, total, squares = self._moments
        n = count.clamp(min=2)
        variance = ((squares - total**2 / n) / (n - 1)).clamp(min=0)
        return torch.where(count >= 2, (variance + variance**2 / (n - 1)).sqrt(), torch.zeros(()).double())

    def weights(self, rows: Tensor, epoch: int) -> Tensor | None:
        """std_i + ε over its mean, once the burn-in is over."""
        if epoch < self.burn_in:
            return None
        deviations = self.deviations()
        smoothed = deviations + deviations.mean()
        if not smoothed.mean() > 0:
            return None
        return (smoothed / smoothed.mean())[rows].float()

    def state(self) -> dict[str, Tensor]:
        """Histories."""
        return {"moments": self._moments.clone()}

    def load(self, state: dict[str, Tensor]) -> None:
        """Take up the histories."""
        self._moments = state["moments"].clone()


class TransferCurriculum(Curriculum):
    """Easy samples first, in ``order``: a share ``start``, ``growth`` times more every ``step_length`` steps."""

    def __init__(
        self, order: Tensor, batch_size: int, *, start: float = 0.04, growth: float = 1.9, step_length: int = 100
    ) -> None:
        super().__init__(len(order), batch_size)
        self.order = order
        self.start = check_real(start, name="start", above=0.0, maximum=1.0)
        self.growth = check_real(growth, name="growth", minimum=1.0)
        self.step_length = check_count(step_length, name="step_length")

    def size(self, step: int) -> int:
        """g(i): samples that may be shown at a step."""
        # Past some power the share is 1 anyway; a float would overflow long after that.
        share = self.start * self.growth ** min(step // self.step_length, 200)
        return max(min(round(share * self.n_samples), self.n_samples), min(self.batch_size, self.n_samples))

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Draw each step at random from the easiest g(i)."""
        for step in range(epoch * self.n_steps, (epoch + 1) * self.n_steps):
            chosen = torch.randperm(self.size(step), generator=generator)[: self.batch_size]
            yield self.order[chosen]


def easiest_first(features: FloatArray, labels: FloatArray, *, seed: int = 0) -> Tensor:
    """Rows sorted by the margin a support vector machine gives their own class, classes taking turns."""
    labels = np.asarray(labels)
    margin = _margins(features, labels, seed)
    turns = []
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        ranked = own[np.argsort(-margin[own], kind="stable")]
        turns += [(place / len(own), int(row)) for place, row in enumerate(ranked)]
    # Equal shares of every class: the first of each, the second of each, …
    return torch.tensor([row for _, row in sorted(turns, key=lambda turn: turn[0])])


def _margins(features: FloatArray, labels: FloatArray, seed: int) -> FloatArray:
    """Score of a sample's own class minus the best other one."""
    machine = make_pipeline(StandardScaler(), SVC(decision_function_shape="ovr", random_state=seed))
    others = machine.fit(features, labels).decision_function(features)
    if others.ndim == 1:  # two classes have one column
        return np.asarray(np.where(labels == machine.classes_[1], others, -others))
    own = np.arange(len(labels)), np.searchsorted(machine.classes_, labels)
    right = others[own]
    others[own] = -np.inf
    margin: FloatArray = right - others.max(axis=1)
    return margin
