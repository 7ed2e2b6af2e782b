"""What is known of the training samples once heads were fitted to them: enough to ask which labels are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from steep._suspects import Suspects, suspects
from steep._validation import FloatArray
from steep.exceptions import InputError
from steep.nn.candidates import Training
from steep.nn.feature_space import cross_fitted_outputs
from steep.nn.head_search import Search
from steep.nn.heads import Head, HeadTask, Samples


@dataclass(frozen=True)
class Known:
    """Features and targets of the training samples, and the penalty that suits them best."""

    samples: Samples
    task: HeadTask
    original: Head
    l2: float

    @classmethod
    def of(cls, training: Training, search: Search) -> Known:
        """With the λ of the best equal-weight head."""
        values = dict(zip(search.candidates, search.values[0], strict=True))
        equal = [c for c in search.candidates if c.kind == "equal" and not c.anchored]
        best = max(equal, key=lambda candidate: values[candidate])
        return cls(training.samples, training.task, training.original, best.l2 or 0.0)

    def suspects(self, **settings: Any) -> Suspects:
        """Ask neighbours in feature space and heads that have not seen the sample."""
        task, samples = self.task, self.samples
        if task.name == "multilabel" or (task.name == "regression" and task.n_outputs > 1):
            raise InputError(
                f"suspects needs one label a sample, got a {task.name} head of {task.n_outputs} outputs; call "
                "steep.suspects once for every column"
            )
        features = np.asarray(samples.features)
        outputs = cross_fitted_outputs(samples, task, self.original, self.l2)
        if task.name == "regression":
            return suspects(
                features, samples.targets[:, 0], predictions=outputs[:, 0].astype(np.float64),
                embedding=None, task="regression", **settings,
            )  # fmt: skip
        labels = samples.targets.reshape(-1).astype(np.int64)
        return suspects(
            features, labels, pred_probs=self._probabilities(outputs, labels), embedding=None,
            task="classification", **settings,
        )  # fmt: skip

    def _probabilities(self, outputs: FloatArray, labels: Any) -> FloatArray:
        """Of the classes that occur."""
        shares = self.task.probabilities(outputs)[:, np.unique(labels)] + 1e-12
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))
