"""The rivals of Table 7: Active Bias and the transfer-learned curriculum.

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

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from reproduction.curricula import Curriculum
from steep._validation import FloatArray, check_count, check_points, check_real
from steep.exceptions import InputError


class ActiveBias(Curriculum):
    """Weigh samples by how much their predictions varied so far (SGD-WPV).

    Examples
    --------
    >>> bias = ActiveBias(2, 2, burn_in=2)
    >>> rows = torch.tensor([0, 1])
    >>> for first in (0.1, 0.9, 0.1):
    ...     bias.observe(rows, torch.tensor([first, 0.5]))
    >>> bias.weights(rows, epoch=3).tolist()[0] > 1
    True
    """

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
        """g(i): samples that may be shown at a step.

        Examples
        --------
        >>> curriculum = TransferCurriculum(torch.arange(1000), 10, start=0.1, growth=2.0, step_length=5)
        >>> [curriculum.size(step) for step in (0, 4, 5, 10, 1000)]
        [100, 100, 200, 400, 1000]
        """
        # Past some power the share is 1 anyway; a float would overflow long after that.
        share = self.start * self.growth ** min(step // self.step_length, 200)
        return max(min(round(share * self.n_samples), self.n_samples), min(self.batch_size, self.n_samples))

    def batches(self, epoch: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Draw each step at random from the easiest g(i)."""
        for step in range(epoch * self.n_steps, (epoch + 1) * self.n_steps):
            chosen = torch.randperm(self.size(step), generator=generator)[: self.batch_size]
            yield self.order[chosen]


def easiest_first(features: FloatArray, labels: FloatArray, *, seed: int = 0) -> Tensor:
    """Rows sorted by the margin a support vector machine gives their own class, classes taking turns.

    Examples
    --------
    >>> X = np.array([[-3.0], [-0.1], [3.0], [0.1]])
    >>> easiest_first(X, np.array([0, 0, 1, 1])).tolist()
    [0, 2, 1, 3]
    """
    features, labels = check_points(features, name="features"), np.asarray(labels)
    if labels.shape != (len(features),) or len(np.unique(labels)) < 2:
        raise InputError(
            f"labels have shape {labels.shape} and {len(np.unique(labels))} classes for {len(features)} samples; "
            "expected one label a sample and at least two classes"
        )
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
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    machine = make_pipeline(StandardScaler(), SVC(decision_function_shape="ovr", random_state=seed)).fit(
        features, labels
    )
    scores = machine.decision_function(features)
    classes = machine.classes_
    if scores.ndim == 1:  # two classes have one column
        return np.asarray(np.where(labels == classes[1], scores, -scores))
    own = np.searchsorted(classes, labels)
    rows = np.arange(len(labels))
    right = scores[rows, own]
    others = scores.copy()
    others[rows, own] = -np.inf
    margin: FloatArray = right - others.max(axis=1)
    return margin
