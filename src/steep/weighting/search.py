"""Choose the weighting by evidence: cross-validated, paired, and with equal weights as the default.

Every candidate (measure, k, m, parameters of the estimator) and the equal-weight control are fitted on
the same folds. A candidate is chosen only when it beats the control by more than the best of as many
candidates would by chance; otherwise equal weights are kept.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid, RepeatedKFold, RepeatedStratifiedKFold, check_cv
from sklearn.utils import indexable
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _num_samples

from steep._progress import progress
from steep._validation import (
    FloatArray,
    Seed,
    check_choice,
    check_count,
    check_generator,
    check_real,
    check_sample_weight,
)
from steep.evidence import Evidence, weigh_evidence
from steep.exceptions import InputError
from steep.labels import check_labels
from steep.measures import resolve
from steep.metrics import Interval
from steep.rescaling import Method
from steep.weighting.candidates import (
    Candidate,
    Fold,
    candidate_weights,
    grid,
    prepare_fold,
    score_fold,
)
from steep.weighting.embedding import embed
from steep.weighting.measuring import default_measures, default_sizes, largest_size, measure_all, sizes_for
from steep.weighting.optuna_search import optuna_candidates
from steep.weighting.scoring import describe_gain, resolve_scorers
from steep.weighting.shared_graph import SharedGraph
from steep.weighting.wrapping import DelegatingEstimator, fit_weighted, require_sample_weight, task_of

DEFAULT_RATIOS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 40.0, 100.0)


class VarianceWeightedCV(DelegatingEstimator):
    """Any estimator, trained with the sample weights that held-out data ask for, or with none.

    Parameters
    ----------
    estimator : estimator
        Anything that takes ``sample_weight``; with ``warm_start=True`` set on it, each fit goes on
        from the last one of its fold, which saves time.
    n_neighbors : sequence of int, optional
        Values of k to try; one neighbour search serves all. Default 1 and 5, for regressors also 20.
        Measures that compare labels need 3 and leave out smaller ones.
    weight_ratio : sequence of float, default (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 40, 100)
        Values of m to try. 1, equal weights, is always among the candidates.
    measure : str or sequence of str, optional
        Measures to try, by name; see :mod:`steep.measures`. Default "misfit", the cross-fitted error of
        the estimator itself, with the paper's "variance" for regressors and with "border", how undecided
        it is, for classifiers with ``predict_proba``. A model is asked with the parameters it was given,
        whatever ``param_grid`` tries.
    param_grid : mapping or list of mappings, optional
        Values for the wrapped estimator's own parameters, tried in every combination. The control
        is then the best equal-weight setting.
    scoring : str, callable, list or mapping, optional
        *Tell it your score.* Any scikit-learn scorer, "worst_decile" or "max_error"; of several the
        first decides. Default the estimator's own ``score``.
    cv : int or splitter, default 5
        Folds, stratified for classifiers, shuffled.
    n_repeats : int, default 2
        How often the folds are drawn anew, when ``cv`` is a number.
    confidence : float, default 0.5
        How sure to be before leaving equal weights: the best candidate must beat them by more than
        the best of as many would by chance in this share of cases. 0.5 gained most on development
        tables with hardly a loss; 0.84 and 0.98 are one and two standard errors, corrected for the
        number of candidates.
    search : {"grid", "optuna"}, default "grid"
        Try every combination, or let Optuna propose ``n_trials`` between the smallest and largest
        values given.
    n_trials : int, default 40
        Candidates that Optuna proposes.
    method, clip, embedding
        See :func:`sample_weights`; ``clip`` is 0.98 here.
    n_jobs : int, optional
        Folds fitted in parallel.
    random_state : int, Generator or None
        Seed of the folds.

    Attributes
    ----------
    verdict_ : str
        One sentence with the figures.
    gain_, gain_interval_ : float, Interval
        Mean gain of the chosen candidate in the deciding score, larger is better, 0 for equal
        weights; with a 95 % interval that holds for all candidates at once.
    best_params_ : dict
        What was chosen.
    cv_results_ : dict of arrays
        One row per candidate; ``pandas.DataFrame(cv_results_)`` shows it.
    estimator_, sample_weight_
        The estimator fitted on all data, and the weights it was given.
    seconds_ : dict
        Time spent on neighbours, on the cross-fitting that "misfit" and "border" need, and on the
        candidates' fits.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = VarianceWeightedCV(LogisticRegression(), weight_ratio=(1, 5), cv=3, n_repeats=1, random_state=0)
    >>> print(model.fit(scale(X), y).verdict_)
    equal weights were kept: ...
    """

    def __init__(
        self,
        estimator: Any,
        *,
        n_neighbors: Sequence[int] | None = None,
        weight_ratio: Sequence[float] = DEFAULT_RATIOS,
        measure: str | Sequence[str] | None = None,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        scoring: Any = None,
        cv: Any = 5,
        n_repeats: int = 2,
        confidence: float = 0.5,
        search: Literal["grid", "optuna"] = "grid",
        n_trials: int = 40,
        method: Method = "minmax",
        clip: float | None = 0.98,
        embedding: Any = "standard",
        n_jobs: int | None = None,
        random_state: Seed = None,
    ) -> None:
        self.estimator = estimator
        self.n_neighbors = n_neighbors
        self.weight_ratio = weight_ratio
        self.measure = measure
        self.param_grid = param_grid
        self.scoring = scoring
        self.cv = cv
        self.n_repeats = n_repeats
        self.confidence = confidence
        self.search = search
        self.n_trials = n_trials
        self.method = method
        self.clip = clip
        self.embedding = embedding
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Self:
        """Try the candidates, choose by evidence, and fit the choice on all data.

        Parameters
        ----------
        X, y : array-like
            Training data.
        sample_weight : array-like of shape (n_samples,), optional
            The caller's own weights: multiplied in for training, used for scoring.
        **params
            Further arguments for the wrapped estimator's ``fit``.
        """
        require_sample_weight(self.estimator)
        check_choice(self.search, name="search", choices=("grid", "optuna"))
        confidence = check_real(self.confidence, name="confidence", above=0.0, maximum=0.9999)
        generator = check_generator(self.random_state)
        X, y = self._check_data(X, y)
        own = None if sample_weight is None else check_sample_weight(sample_weight, _num_samples(X))
        extra = self._fit_params(params)
        folds = self._prepare_folds(X, y, own, extra, generator)
        candidates, scores = self._score(folds, X, y, own, extra, generator)
        self._conclude(candidates, scores, folds, confidence, generator)
        self._refit(X, y, own, extra)
        return self

    def _check_data(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Refuse now what would otherwise fail somewhere inside a fold."""
        if self.embedding is None or isinstance(self.embedding, str):
            embed(X, self.embedding)
        X, y = indexable(X, y)
        if _num_samples(X) == 1:
            raise InputError("X has 1 sample; need several for cross-validation; pass more data")
        check_labels(y, n_samples=_num_samples(X), task=task_of(self.estimator))
        if is_classifier(self.estimator) and type_of_target(y) in (
            "continuous",
            "continuous-multioutput",
            "unknown",
        ):
            raise InputError(
                f"y is {type_of_target(y)}. Unknown label type: need classes for a classifier; pass a regressor, or "
                "labels of one kind"
            )
        return X, y

    def _prepare_folds(
        self, X: Any, y: Any, own: FloatArray | None, extra: Any, generator: np.random.Generator
    ) -> list[Fold]:
        splits = self._splitter(y, generator).split(np.zeros((_num_samples(X), 1)), y)
        measures = self._measures(y)
        sizes = self._sizes(measures)
        started = time.perf_counter()
        graph = SharedGraph.of(X, largest_size(measures, sizes), self.embedding)
        self.seconds_ = {"neighbors": time.perf_counter() - started}
        shared = {"estimator": self.estimator, "embedding": self.embedding, "sample_weight": own}
        shared |= {"measures": measures, "sizes": sizes, "params": extra, "graph": graph}
        jobs = (delayed(prepare_fold)(X, y, rows, **shared) for rows in splits)
        folds: list[Fold] = Parallel(self.n_jobs)(jobs)
        if len(folds) < 2:
            raise InputError(f"cv gives {len(folds)} fold; need at least 2 to compare; raise cv or n_repeats")
        return folds

    def _splitter(self, y: Any, generator: np.random.Generator) -> Any:
        if not isinstance(self.cv, int | np.integer):
            return check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        repeated = RepeatedStratifiedKFold if is_classifier(self.estimator) else RepeatedKFold
        return repeated(
            n_splits=check_count(self.cv, name="cv", minimum=2),
            n_repeats=check_count(self.n_repeats, name="n_repeats"),
            random_state=int(generator.integers(2**31 - 1)),
        )

    def _measures(self, y: Any) -> tuple[str, ...]:
        if self.measure is None:
            return default_measures(self.estimator, y)
        names = (self.measure,) if isinstance(self.measure, str) else tuple(self.measure)
        for name in names:
            resolve(name, use="VarianceWeightedCV", feeds=("labels", "model"))
        return names

    def _sizes(self, measures: Sequence[str]) -> tuple[int, ...]:
        given = default_sizes(self.estimator) if self.n_neighbors is None else self.n_neighbors
        sizes = tuple(check_count(k, name="n_neighbors") for k in np.atleast_1d(given).tolist())
        for measure in measures:
            sizes_for(measure, sizes)
        if self.search == "optuna":
            return tuple(range(min(sizes), max(sizes) + 1))
        return sizes

    def _ratios(self) -> tuple[float, ...]:
        values = np.atleast_1d(self.weight_ratio).tolist()
        return tuple(check_real(m, name="weight_ratio", above=0.0) for m in values)

    def _score(
        self,
        folds: list[Fold],
        X: Any,
        y: Any,
        own: FloatArray | None,
        extra: Any,
        generator: np.random.Generator,
    ) -> tuple[list[Candidate], FloatArray]:
        """Candidates and their scores, ``(n_candidates, n_folds, n_scorers)``."""
        self.scorers_ = resolve_scorers(self.estimator, self.scoring)
        shared = {"estimator": self.estimator, "X": X, "y": y, "sample_weight": own, "params": extra}
        shared |= {"scorers": self.scorers_, "rescaling": self._rescaling()}

        def score(candidates: Sequence[Candidate], label: str) -> FloatArray:
            jobs = (delayed(score_fold)(fold, candidates, **shared) for fold in folds)
            parallel = Parallel(self.n_jobs, return_as="generator")
            return np.stack(list(progress(parallel(jobs), total=len(folds), label=label)), axis=1)

        started = time.perf_counter()
        settings = list(ParameterGrid(self.param_grid)) if self.param_grid else [{}]
        measures = self._measures(y)
        space = (measures, self._sizes(measures), self._ratios(), settings)
        if self.search == "grid":
            candidates = grid(*space)
            scores = score(candidates, "folds")
        else:
            candidates, scores = optuna_candidates(score, space, self.n_trials, generator)
        self.seconds_ = {
            "neighbors": self.seconds_["neighbors"] + sum(fold.measured.seconds_neighbors for fold in folds),
            "cross_fitting": sum(fold.measured.seconds_cross_fitting for fold in folds),
            "fits": time.perf_counter() - started,
        }
        return candidates, scores

    def _rescaling(self) -> dict[str, Any]:
        return {"method": self.method, "clip": self.clip}

    def _conclude(
        self,
        candidates: list[Candidate],
        scores: FloatArray,
        folds: list[Fold],
        confidence: float,
        generator: np.random.Generator,
    ) -> None:
        """Weigh the evidence of the deciding score; keep all scores in ``cv_results_``."""
        controls = [i for i, candidate in enumerate(candidates) if candidate.is_control]
        rivals = [i for i, candidate in enumerate(candidates) if not candidate.is_control]
        control = max(controls, key=lambda i: scores[i, :, 0].mean())
        differences = scores[:, :, 0] - scores[control, :, 0]
        test_ratio = float(np.mean([len(fold.test) / len(fold.train) for fold in folds]))
        evidence = weigh_evidence(differences[rivals], test_ratio, confidence, generator) if rivals else None
        chosen = control if evidence is None or evidence.chosen is None else rivals[evidence.chosen]
        self.best_index_, self.n_splits_ = chosen, len(folds)
        self._candidate = candidates[chosen]
        self.best_params_ = _params_of(self._candidate)
        self.cv_results_ = self._table(candidates, scores, control, test_ratio)
        self.gain_interval_ = (
            evidence.interval(evidence.nearest) if evidence and chosen != control else _NO_GAIN
        )
        self.gain_ = self.gain_interval_.mean
        self.verdict_ = self._verdict(evidence, candidates, rivals, float(scores[control, :, 0].mean()))

    def _verdict(
        self, evidence: Evidence | None, candidates: list[Candidate], rivals: list[int], control: float
    ) -> str:
        if evidence is None:
            return "equal weights were kept: no other weight_ratio was tried"
        name, nearest = next(iter(self.scorers_)), evidence.nearest
        words = describe_gain(name, evidence.interval(nearest), control)
        best = ", ".join(f"{key}={value}" for key, value in _params_of(candidates[rivals[nearest]]).items())
        if evidence.chosen is None:
            return f"equal weights were kept: the best of {len(rivals)} candidates, {best}, {words}"
        doubt = (
            ""
            if evidence.interval(nearest).low > 0
            else " (a bet, not a proof: the interval reaches below zero)"
        )
        return f"{best} {words}; equal weights were not chosen{doubt}"

    def _table(
        self, candidates: list[Candidate], scores: FloatArray, control: int, test_ratio: float
    ) -> dict[str, Any]:
        table: dict[str, Any] = {
            "measure": np.array([c.measure for c in candidates], dtype=object),
            "n_neighbors": np.array([c.n_neighbors for c in candidates], dtype=object),
            "weight_ratio": np.array([c.weight_ratio for c in candidates]),
            "params": [dict(c.params) for c in candidates],
        }
        for column, name in enumerate(self.scorers_):
            gains = scores[:, :, column] - scores[control, :, column]
            table[f"mean_test_{name}"] = scores[:, :, column].mean(axis=1)
            for fold in range(scores.shape[1]):
                table[f"split{fold}_test_{name}"] = scores[:, fold, column]
            table[f"std_test_{name}"] = scores[:, :, column].std(axis=1)
            table[f"mean_gain_{name}"] = gains.mean(axis=1)
            table[f"se_gain_{name}"] = gains.std(axis=1, ddof=1) * np.sqrt(1 / gains.shape[1] + test_ratio)
        return table

    def _refit(self, X: Any, y: Any, own: FloatArray | None, extra: dict[str, Any]) -> None:
        chosen, n_samples = self._candidate, _num_samples(X)
        weights = np.ones(n_samples)
        if chosen.measure is not None and chosen.n_neighbors is not None:
            measured = measure_all(
                X,
                y,
                self.estimator,
                measures=[chosen.measure],
                sizes=[chosen.n_neighbors],
                embedding=self.embedding,
                sample_weight=own,
                params=extra,
            )
            weights = candidate_weights(chosen, measured.variation, n_samples, self._rescaling())
        self.sample_weight_ = weights if own is None else weights * own
        model = clone(self.estimator).set_params(**chosen.params)
        self.estimator_ = fit_weighted(model, X, y, self.sample_weight_, extra)


_NO_GAIN = Interval(0.0, 0.0, 0.0, 0)


def _params_of(candidate: Candidate) -> dict[str, Any]:
    """A candidate as users write it; what does not apply is left out."""
    params: dict[str, Any] = {"weight_ratio": candidate.weight_ratio}
    if not candidate.is_control:
        params |= {"n_neighbors": candidate.n_neighbors, "measure": candidate.measure}
    return params | {f"estimator__{name}": value for name, value in candidate.params.items()}
