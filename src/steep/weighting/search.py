"""Choose the weighting by evidence: cross-validated, paired, and with equal weights as the default.

Every candidate (measure, k, m) and the controls are fitted on the same folds. A
control other than equal weights is preferred when it beats them by the rule of :mod:`steep.evidence`; a weighting
is chosen only when it beats the preferred control by more than the best of as many candidates would by chance.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GroupKFold, RepeatedKFold, RepeatedStratifiedKFold, StratifiedGroupKFold, check_cv
from sklearn.utils.multiclass import type_of_target

from steep._blas import few_threads
from steep._progress import progress_bar
from steep._validation import (
    FloatArray,
    IntArray,
    Seed,
    check_choice,
    check_count,
    check_generator,
    check_jobs,
    check_real,
    one_line,
    shown,
)
from steep.evidence import Score, Verdict
from steep.exceptions import InputError, InputTypeError
from steep.measures import Measure, resolve
from steep.metrics import resolve_scorers
from steep.rescaling import Rescaling, check_rescaling
from steep.weighting.candidates import Menu, WeightingCandidate, check_controls, default_measures, values_of
from steep.weighting.fitting import DelegatingEstimator, require_sample_weight, task_of
from steep.weighting.linear import Linear
from steep.weighting.outcome import bounded, conclude, in_words, results_table
from steep.weighting.racing import race
from steep.weighting.trials import FoldScores, Trainer
from steep.weighting.weights import TrainingSet

DEFAULT_RATIOS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 40.0, 100.0)

# The paper cuts nothing; in a search the steepest two per cent of the samples count the same.
CLIPPED = Rescaling(clip=0.98)


@dataclass(frozen=True)
class WeightSearch:
    """How :class:`VarianceWeightedCV` compares its candidates.

    Parameters
    ----------
    controls : "auto" or sequence of {"balanced", "threshold", "robust"}, default "auto"
        What to compare weightings with, in addition to equal weights: weights that balance the classes; equal
        weights with a decision threshold tuned on cross-fitted probabilities of the training rows (two
        classes, ``predict_proba``); and the same model with a robust loss (``HuberRegressor`` for ridge and linear
        regression, the absolute error for gradient boosting). "auto" takes what the deciding score can gain from:
        the first two for balanced accuracy, F1, precision, recall and Jaccard, balancing for average precision, a
        robust loss for the mean and median absolute error, and none for other scores. A control that beats equal
        weights is chosen unless a weighting beats it in turn.
    n_repeats : int, default 2
        How often the folds are drawn again, when ``cv`` is a number.
    confidence : float, default 0.95
        How sure to be before leaving equal weights: the best candidate must beat them by more than
        the best of as many would by chance in this share of cases. Folds share training data, so chance reaches
        further than that: at 0.95 equal weights were kept in 91 % of 504 measured searches in which no weighting
        could help.
    max_fits : int, optional
        Fits to make at most before the last one; weightings of a linear model that are solved together count as one.
        When they are used up, the folds scored so far decide.
    shortcuts : {"all", "exact", "none"}, default "all"
        How to save fits. "exact" solves ridge and logistic regression for all weights of a fold at once, where that
        gives the answer of the estimator fitted to convergence (see :mod:`steep.weighting.linear`). "all" also
        tries a coarse grid on a few folds, goes on with the weightings that are ahead in the first score, and
        ends when none is (see :mod:`steep.weighting.racing`). "none" fits every candidate on every fold.
    rescaling : Rescaling, default ``Rescaling(clip=0.98)``
        How variation is scaled and cut before the ratio is applied.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> search = VarianceWeightedCV(SVC(), search=WeightSearch(max_fits=200, confidence=0.9))
    """

    controls: str | Sequence[str] = "auto"
    n_repeats: int = 2
    confidence: float = 0.95
    max_fits: int | None = None
    shortcuts: Literal["all", "exact", "none"] = "all"
    rescaling: Rescaling = CLIPPED

    def __post_init__(self) -> None:
        check_count(self.n_repeats, name="n_repeats")
        check_real(self.confidence, name="confidence", above=0.0, maximum=0.9999)
        if self.max_fits is not None:
            check_count(self.max_fits, name="max_fits")
        check_choice(self.shortcuts, name="shortcuts", choices=("all", "exact", "none"))
        check_rescaling(self.rescaling)


class VarianceWeightedCV(DelegatingEstimator):
    """Fit an estimator with sample weights chosen on held-out folds, or with equal weights if none are better.

    Parameters
    ----------
    estimator : estimator
        Anything that takes ``sample_weight``.
    n_neighbors : sequence of int, optional
        Values of k to try; one neighbour search serves all. Default 1 and 5, for regressors also 20.
        Measures that compare labels leave out the sizes that are too small for them.
    weight_ratio : sequence of float, default (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 40, 100)
        Values of m to try. 1, equal weights, is always among the candidates.
    measure : str, callable, Measure or a sequence of them, optional
        Measures to try; see :mod:`steep.measures`. Default "misfit", the cross-fitted error of
        the estimator itself, with the paper's "variance" for regressors and with "border", how undecided
        it is, for classifiers with ``predict_proba``. A callable gets ``X`` and ``y`` of the training rows.
    scoring : str, callable, list or mapping, optional
        The score you care about: any scikit-learn scorer, "worst_decile" or "max_error". The first of
        several decides. Default the estimator's own ``score``.
    cv : int or splitter, default 5
        Folds, shuffled; stratified for classifiers, and never through a group when ``groups`` are given.
    random_state : int, Generator or None
        Seed of the folds.

    Other Parameters
    ----------------
    search : WeightSearch, optional
        How the candidates are compared: controls, repeats, confidence, budget; see :class:`WeightSearch`.
    embedding
        See :func:`sample_weights`.
    n_jobs : int, optional
        Folds fitted in parallel.

    Attributes
    ----------
    verdict_ : Verdict
        The outcome in plain words (``print`` it); its ``table`` holds every candidate.
    gain_, gain_interval_ : float, Interval
        Gain to expect of what was chosen in the deciding score, larger is better, 0 for equal weights: the mean
        over the folds, corrected for having chosen the best of many. Its 95 % interval holds for all candidates
        at once. A weighting is compared with the control it had
        to beat, a control with equal weights.
    best_params_, best_index_ : dict, int
        What was chosen, and its row of ``cv_results_``.
    evidence_ : Evidence or None
        Gains of the weightings over the control they had to beat, row ``control_index_``; candidate i of it is row
        ``rivals_[i]``. None when no weighting was tried.
    cv_results_ : dict of arrays
        One row per candidate, gains over equal weights; ``pandas.DataFrame(cv_results_)`` shows it. A candidate
        that was dropped has NaN for the folds it was not fitted on, and means over its ``n_folds`` others.
    n_splits_, n_fits_ : int
        Folds that were scored, and fits that the search took; weightings of a linear model that are solved together
        count as one.
    estimator_, sample_weight_
        The estimator fitted on all data, and the weights it was given. If a threshold was tuned it is
        a ``FixedThresholdClassifier``, so that ``predict`` uses it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = VarianceWeightedCV(LogisticRegression(), weight_ratio=(1, 5), cv=3, random_state=0)
    >>> print(model.fit(scale(X), y).verdict_)
    Equal weights are kept: none of 4 weightings beat them. The closest, ...
    """

    def __init__(
        self,
        estimator: Any,
        *,
        n_neighbors: Sequence[int] | None = None,
        weight_ratio: Sequence[float] = DEFAULT_RATIOS,
        measure: Any = None,
        scoring: Any = None,
        cv: Any = 5,
        search: WeightSearch | None = None,
        embedding: Any = "auto",
        n_jobs: int | None = None,
        random_state: Seed = None,
    ) -> None:
        self.estimator = estimator
        self.n_neighbors = n_neighbors
        self.weight_ratio = weight_ratio
        self.measure = measure
        self.scoring = scoring
        self.cv = cv
        self.search = search
        self.embedding = embedding
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **params: Any) -> Self:
        """Try the candidates, choose by evidence, and fit the choice on all data.

        Parameters
        ----------
        X, y : array-like
            Training data.
        sample_weight : array-like of shape (n_samples,), optional
            Your weights: multiplied in for training, used for scoring.
        groups : array-like of shape (n_samples,), optional
            Samples that belong together, for the splitter; a model that a measure asks is never asked about
            a group it saw either. Handed on to a wrapped search.
        **params
            Further arguments for the wrapped estimator's ``fit``.
        """
        require_sample_weight(self.estimator)
        how = WeightSearch() if self.search is None else self.search
        if not isinstance(how, WeightSearch):
            raise InputTypeError(
                f"search={shown(how)} is a {type(how).__name__}; expected a steep.WeightSearch, for example "
                "steep.WeightSearch(max_fits=200)"
            )
        check_jobs(self.n_jobs)
        generator = check_generator(self.random_state)
        samples = self._check_data(X, y, sample_weight, groups)
        scorers = resolve_scorers(self.estimator, self.scoring)
        trainer = Trainer(
            estimator=self.estimator, params=self._fit_params(params, groups), scorers=scorers, rescaling=how.rescaling
        )
        menu = self._menu(samples, how.controls, next(iter(scorers)))
        splits = self._splits(samples, how.n_repeats, generator)

        with each_warning_once(), few_threads(np.size(samples.X)):
            if how.shortcuts != "none":
                linear = Linear.of(clone(self.estimator), samples, trainer.params, scorers)
                trainer = replace(trainer, linear=linear)
            candidates, scores, found = self._race(samples, splits, trainer, menu, how)
            test_ratio = float(np.mean([len(fold.test) / len(fold.train) for fold in found.folds]))
            outcome = conclude(candidates, scores[:, :, 0], test_ratio, how.confidence, generator)
            final = trainer.train(candidates[outcome.chosen], samples, found.graph)

        self.scorers_, self.n_splits_, self.n_fits_ = scorers, len(found.folds), found.n_fits
        score = Score.named(self._score_name())
        self.best_index_, self.gain_interval_ = outcome.chosen, bounded(outcome, scores[:, :, 0], score)
        self.evidence_, self.rivals_, self.control_index_ = outcome.evidence, outcome.rivals, outcome.control
        self.gain_ = outcome.interval.mean
        self.cv_results_ = results_table(candidates, scores, list(scorers), outcome.equal, test_ratio)
        self.estimator_, self.sample_weight_, self.best_params_ = final
        sentence = in_words(
            outcome, candidates, scores[:, :, 0], score, of_folds=len(splits), confidence=how.confidence
        )
        self.verdict_ = Verdict(sentence, self.gain_interval_, score.unit.strip(), self.cv_results_)
        return self

    def _check_data(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> TrainingSet:
        """Reject now what would otherwise fail somewhere inside a fold."""
        samples = TrainingSet.check(
            X, y, embedding=self.embedding, task=task_of(self.estimator), estimator=self.estimator,
            sample_weight=sample_weight, groups=groups,
        )  # fmt: skip
        if len(samples) == 1:
            raise InputError("X has 1 sample; expected several for cross-validation; pass more data")
        if not is_classifier(self.estimator):
            return samples
        try:
            kind = type_of_target(y)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"y is not a target of a classifier ({one_line(error)}); expected one class per sample; "
                "convert them to str"
            ) from error
        if kind in ("continuous", "continuous-multioutput", "unknown"):
            raise InputError(
                f"y is {kind}. Unknown label type: need classes for a classifier; pass a regressor, or "
                "labels of one kind"
            )
        if samples.labels.codes is not None and samples.labels.n_columns == 1:
            raise InputError("y holds one class; expected at least 2 classes to train a classifier; pass more data")
        return samples

    def _menu(self, samples: TrainingSet, controls: Any, score: str) -> Menu:
        asked = default_measures(self.estimator, samples) if self.measure is None else self.measure
        if isinstance(asked, str | Measure) or callable(asked) or not isinstance(asked, Iterable):
            asked = [asked]
        measures = [resolve(name, use="VarianceWeightedCV", feeds=("labels", "model")) for name in asked]
        if not measures:
            raise InputError("measure is empty; expected at least one measure; leave it out for the default")
        # Borders between classes blur over many neighbours, numbers less so.
        usual = (1, 5) if is_classifier(self.estimator) else (1, 5, 20)
        given = values_of(usual if self.n_neighbors is None else self.n_neighbors, "n_neighbors")
        sizes = [check_count(k, name="n_neighbors") for k in given]
        ratios = values_of(self.weight_ratio, "weight_ratio")
        return Menu(
            # Sizes too small for a measure are left out; one is tried at least.
            sizes={
                m: list(dict.fromkeys(map(m.check_k, [k for k in sizes if k >= m.smallest_k] or [max(sizes)])))
                for m in measures
            },
            ratios=tuple(check_real(m, name="weight_ratio", above=0.0) for m in ratios),
            controls=check_controls(controls, score, self.estimator, samples),
        )

    def _splits(
        self, samples: TrainingSet, n_repeats: int, generator: np.random.Generator
    ) -> list[tuple[IntArray, IntArray]]:
        if isinstance(self.cv, int | np.integer):
            n_splits, stratified = check_count(self.cv, name="cv", minimum=2), is_classifier(self.estimator)
            if samples.groups is None:
                repeated = RepeatedStratifiedKFold if stratified else RepeatedKFold
                seed = int(generator.integers(2**31 - 1))
                splitters = [repeated(n_splits=n_splits, n_repeats=n_repeats, random_state=seed)]
            else:
                grouped = StratifiedGroupKFold if stratified else GroupKFold
                seeds = generator.integers(2**31 - 1, size=n_repeats).tolist()
                splitters = [grouped(n_splits=n_splits, shuffle=True, random_state=seed) for seed in seeds]
        else:
            try:
                splitters = [check_cv(self.cv, samples.y, classifier=is_classifier(self.estimator))]
            except (TypeError, ValueError) as error:
                raise InputError(
                    f"cv={self.cv!r} is not a splitter ({one_line(error)}); expected a number of folds, a "
                    "splitter or splits"
                ) from error
        blank = np.zeros((len(samples), 1))
        try:
            splits = [pair for s in splitters for pair in s.split(blank, samples.y, samples.groups)]
        except (TypeError, ValueError) as error:
            raise InputError(
                f"cv={self.cv!r} cannot split these data ({one_line(error)}); lower cv, or pass groups to fit"
            ) from error
        if len(splits) < 2:
            raise InputError(f"cv gives {len(splits)} fold; expected at least 2 to compare; raise cv or n_repeats")
        return [check_split(pair, len(samples)) for pair in splits]

    def _race(
        self, samples: TrainingSet, splits: Sequence[tuple[IntArray, IntArray]], trainer: Trainer, menu: Menu,
        how: WeightSearch,
    ) -> tuple[list[WeightingCandidate], FloatArray, FoldScores]:  # fmt: skip
        """Candidates that were tried, their scores, and the folds."""
        grid, solved = menu.grid(), trainer.linear is not None
        most = len(splits) * trainer.fits_per_fold(grid, True)
        with progress_bar(total=min(most, how.max_fits or most), label="fits") as bar:
            found = FoldScores(samples, splits, trainer, menu, self.n_jobs, bar)

            def affordable(n_folds: int, rows: Sequence[int]) -> int:
                price = trainer.fits_per_fold([grid[i] for i in rows], True)
                left = n_folds if how.max_fits is None else (how.max_fits - found.n_fits) // price
                if left < 2 and not found.folds:
                    raise InputError(
                        f"max_fits={how.max_fits} is too few; expected at least {2 * price}, for two folds"
                    )
                return min(n_folds, left)

            tried, scores = race(
                grid, len(splits), lambda first, last, rows: found.of(first, last, [grid[i] for i in rows]),
                solved=solved, early=how.shortcuts == "all", n_scorers=len(trainer.scorers), affordable=affordable,
            )  # fmt: skip
        return [grid[i] for i in tried], scores, found

    def _score_name(self) -> str:
        """The deciding score; an estimator's own is accuracy or R²."""
        name = next(iter(self.scorers_))
        if self.scoring is not None:
            return name
        return "accuracy" if is_classifier(self.estimator) else "r2" if is_regressor(self.estimator) else name


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Give warnings of the same kind from the same line once, with their number: fits warn one by one."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    finally:
        kinds: dict[Any, list[warnings.WarningMessage]] = {}
        for warning in caught:
            kinds.setdefault((warning.category, warning.filename, warning.lineno), []).append(warning)
        for first, *others in kinds.values():
            more = f" ({len(others)} more like it)" if others else ""
            warnings.warn_explicit(f"{first.message}{more}", first.category, first.filename, first.lineno)


def check_split(pair: Any, n_samples: int) -> tuple[IntArray, IntArray]:
    """Return training and test rows as indices."""
    everything = np.arange(n_samples)
    try:
        train, test = (everything[np.asarray(rows)] if len(rows) else everything[:0] for rows in pair)
    except (TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"cv gives rows that do not fit {n_samples} samples ({one_line(error)}); expected (train, test) indices"
        ) from error
    if not (train.ndim == test.ndim == 1 and len(train) and len(test)):
        raise InputError(f"cv gives {train.size} training and {test.size} test rows; expected at least one of each")
    return train, test
