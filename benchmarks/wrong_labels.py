"""Labels made wrong on purpose: three kinds for classes, six for numbers.

Classes, a share ``rate`` of all labels:

    uniform    drawn anywhere, any other class
    class      each class has its own rate, between 0 and twice the mean, and its own wrong class
    border     most where a support vector machine fitted to the true labels is undecided, its second choice

Numbers, likewise:

    replaced   by the label of another sample drawn at random
    shifted    by 1 to 3 standard deviations of the labels, up or down
    scaled     by ten or a tenth (a slipped decimal point), of the distance to the smallest label
    converted  times 2.54 (another unit)
    blurred    plus a normal number of 0.7 standard deviations of the labels
    default    by the median of the labels

Each returns the labels as given and which of them are wrong: those that differ from the true ones.
"""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

CLASS_KINDS = ("uniform", "class", "border")
NUMBER_KINDS = ("replaced", "shifted", "scaled", "converted", "blurred", "default")


def spoil(kind, X, y, rate, rng):
    """Labels of which a share ``rate`` is wrong, and which ones."""
    given = _KINDS[kind](X, y, rate, rng)
    return given, given != y


def _some(y, rate, rng, p=None):
    return rng.choice(len(y), max(1, round(rate * len(y))), replace=False, p=p)


def _uniform(X, y, rate, rng):
    given, n_classes = y.copy(), y.max() + 1
    rows = _some(y, rate, rng)
    given[rows] = (y[rows] + rng.integers(1, n_classes, len(rows))) % n_classes
    return given


def _class(X, y, rate, rng):
    n_classes = y.max() + 1
    partner = (np.arange(n_classes) + rng.integers(1, n_classes)) % n_classes
    share = rng.uniform(0, 2, n_classes)
    chance = share[y]
    rows = _some(y, rate, rng, chance / chance.sum())
    given = y.copy()
    given[rows] = partner[y[rows]]
    return given


def _border(X, y, rate, rng):
    margins = _margins(X, y, rng)
    ordered = np.sort(margins, axis=1)
    doubt = ordered[:, -1] - ordered[:, -2]
    rank = np.argsort(np.argsort(doubt))
    chance = np.exp(-4 * rank / len(y))
    rows = _some(y, rate, rng, chance / chance.sum())
    others = margins.copy()
    others[np.arange(len(y)), y] = -np.inf
    given = y.copy()
    given[rows] = others.argmax(axis=1)[rows]
    return given


def _margins(X, y, rng):
    """Decision values (n_samples, n_classes) of a support vector machine that has not seen the sample."""
    n_classes = y.max() + 1
    points = StandardScaler().fit_transform(X)
    margins = np.full((len(y), n_classes), -np.inf)
    fewest = np.bincount(y)[np.bincount(y) > 0].min()
    folds = StratifiedKFold(int(np.clip(fewest, 2, 5)), shuffle=True, random_state=int(rng.integers(2**31)))
    for kept, asked in folds.split(points, y):
        model = SVC().fit(points[kept], y[kept])
        values = model.decision_function(points[asked])
        values = np.column_stack([-values, values]) if values.ndim == 1 else values
        margins[np.ix_(asked, model.classes_)] = values
    return margins


def _replaced(X, y, rate, rng):
    given, rows = y.copy(), _some(y, rate, rng)
    given[rows] = rng.choice(y, len(rows))
    return given


def _shifted(X, y, rate, rng):
    given, rows = y.copy(), _some(y, rate, rng)
    given[rows] += rng.choice([-1, 1], len(rows)) * rng.uniform(1, 3, len(rows)) * y.std()
    return given


def _scaled(X, y, rate, rng):
    given, rows = y.copy(), _some(y, rate, rng)
    given[rows] = y.min() + (y[rows] - y.min()) * rng.choice([0.1, 10.0], len(rows))
    return given


def _converted(X, y, rate, rng):
    given, rows = y.copy(), _some(y, rate, rng)
    given[rows] = 2.54 * y[rows]
    return given


def _blurred(X, y, rate, rng):
    given, rows = y.copy(), _some(y, rate, rng)
    given[rows] += rng.normal(0, 0.7 * y.std(), len(rows))
    return given


def _default(X, y, rate, rng):
    given, rows = y.copy(), _some(y, rate, rng)
    given[rows] = np.median(y)
    return given


_KINDS = {
    "uniform": _uniform,
    "class": _class,
    "border": _border,
    "replaced": _replaced,
    "shifted": _shifted,
    "scaled": _scaled,
    "converted": _converted,
    "blurred": _blurred,
    "default": _default,
}
