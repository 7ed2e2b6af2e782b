"""One round: which points come next, and why. Designs and campaigns plan every round by :func:`plan_round`.

    1  scale of each axis, and the length of a Gaussian process where one is needed   process.py
    2  how far the next runs follow the variation: what held-out runs say              hedge.py
    3  the even part of the round continues the Sobol sequence                         pool.py
    4  the rest is drawn from a density that follows the variation                     sampler.py

Fewer runs are placed where runs have failed (pool.py). A round is a function of its arguments alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from steep._validation import FloatArray
from steep.domain import Box
from steep.measures.surprise import standardised
from steep.sampling.evaluated import Evaluated, embedded
from steep.sampling.hedge import DOMAIN, Hedge, choose_share, split
from steep.sampling.pool import EvenSequence, Trust, trust_in
from steep.sampling.process import axis_relevance, axis_scales, length_scale
from steep.sampling.sampler import VariationSampler
from steep.sampling.strategies import Strategy

# Of more runs than this an equal share of those that worked and those that failed judges where runs fail.
_JUDGED = 2048


class Runs:
    """All that a round is planned from.

    ``seen`` are the results that are followed, with their ``variation``; ``is_even`` marks those that stand for the
    domain. ``others`` are other results, ``pending`` runs in flight, ``failed`` runs that failed, in the user's units.
    """

    def __init__(
        self, seen: Evaluated, variation: FloatArray, is_even: npt.NDArray[np.bool_], *,
        others: FloatArray | None = None, pending: FloatArray | None = None, failed: FloatArray,
    ) -> None:  # fmt: skip
        self.seen, self.variation, self.is_even, self.failed = seen, variation, is_even, failed
        self.others = failed[:0] if others is None else others
        self.pending = failed[:0] if pending is None else pending
        self.results = np.vstack([seen.X, self.others])


class Planned(NamedTuple):
    """The points of a round, the first ``n_even`` of them of the Sobol sequence, and why this many."""

    points: FloatArray
    n_even: int
    hedge: Hedge | None


def plan_round(
    box: Box, strategy: Strategy, runs: Runs, *, n: int, number: int, sequence: EvenSequence,
    generator: np.random.Generator,
) -> Planned:  # fmt: skip
    """Choose ``n`` points after ``number`` rounds, or those left; ``sequence`` is the Sobol sequence of the start."""
    seen, n_coordinates = runs.seen, runs.seen.coordinates.shape[1]
    trust = _trust(box, runs, generator)
    n_even, floor = (n if strategy.measure is None else 0), strategy.floor
    draw = strategy.draw_in(n_coordinates, number)
    scale: FloatArray | float = 1.0
    length: float | None = None
    hedge: Hedge | None = None
    if len(seen.X) and strategy.hedges:
        scale, length = axis_scales(seen.coordinates, seen.labels)
        domain = box.embed(box.unit(sequence.first(DOMAIN))) * scale
        hedge = choose_share(seen.coordinates * scale, seen.labels, runs.is_even, domain, generator)
        n_even, changed = split(n, hedge.share, number=number, n_coordinates=n_coordinates, n_runs=len(runs.results))
        floor = strategy.floor if changed is None else changed
    elif len(seen.X) and draw != "random":
        # The paper measures distances nowhere; a pool does, along the axes that matter.
        scale = axis_relevance(seen.coordinates, seen.labels)
    even = sequence.after(n_even, taken=np.vstack([runs.results, runs.pending, runs.failed]), trust=trust)
    if len(even) == n:
        return Planned(even, n, hedge)
    if draw == "doubt" and len(seen.X) and length is None:
        length = length_scale(seen.coordinates * scale, standardised(seen.labels))
    sampler = VariationSampler(
        box, draw=draw, n_components=strategy.n_components, temper=strategy.temper, floor=floor, random_state=generator
    )
    # With nothing to follow yet the density is even.
    followed, others = (seen, runs.others) if runs.variation.any() else (seen.part(slice(0)), runs.results)
    occupied = np.vstack([others, runs.pending, runs.failed, even])
    sampler.fit_unit(
        followed.unit, followed.coordinates, runs.variation[: len(followed.X)], scale=scale,
        occupied=embedded(box, occupied), trust=trust, length=length,
    )  # fmt: skip
    placed = sampler.sample_unit(n - len(even))
    return Planned(np.vstack([even, box.from_unit(placed)]) if len(placed) else even, len(even), hedge)


def _trust(box: Box, runs: Runs, generator: np.random.Generator) -> Trust | None:
    """How far runs are trusted to work, by the runs around them; None where none has failed."""
    if not len(runs.failed):
        return None
    worked, failed = runs.results, runs.failed
    share = min(1.0, _JUDGED / (len(worked) + len(failed)))
    if share < 1:
        worked, failed = (part[generator.random(len(part)) < share] for part in (worked, failed))
    return trust_in(box, embedded(box, worked), embedded(box, failed))
