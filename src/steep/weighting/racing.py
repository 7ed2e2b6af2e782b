"""Racing: candidates that lag behind equal weights after a few folds are not fitted on the others.

After three tenths of the folds (three at least) a weighting with

    t_c = mean_j d_cj / (sd_j d_cj / √J) ≤ −½,      d_cj its score minus that of equal weights on fold j

is dropped: it would have to gain more than chance allows on the folds left, and then still beat the best of
all. Controls are never dropped. When no weighting is left and there is nothing else to decide, equal weights are
certain and the search ends.

**The correction for many candidates stays.** The bound that a candidate must exceed is that of the largest t of *all*
candidates, those dropped included, with the differences they had taken again for the folds they missed
(:func:`steep.evidence.weigh_evidence`). That bound is an estimate of the one without racing, not the same number: in
1,200 simulated searches without a difference the control was given up in 14.0 % of cases, 14.3 % without racing, at a
nominal 16 %, and in 49.7 % (49.8 %) at a nominal 50 %; standard errors 1.1 and 1.4 %. A bound of the survivors alone,
who were picked for being ahead, gave it up in 20 and 62 % (``python benchmarks/evidence.py null``).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from steep._validation import FloatArray
from steep.evidence import student_t
from steep.weighting.candidates import Candidate
from steep.weighting.controls import EQUAL

# On development tables .97 of the choices stayed the same, and .59 of the fits were left; -0.5 or less is behind.
_SHARE, _FEWEST, _BEHIND = 0.3, 3, -0.5
# With fewer folds there is little to save.
_WORTHWHILE = 8


def folds_before_racing(n_folds: int) -> int:
    """Folds on which every candidate is scored; all of them where racing would save little.

    Examples
    --------
    >>> folds_before_racing(10), folds_before_racing(5)
    (3, 5)
    """
    return max(_FEWEST, ceil(_SHARE * n_folds)) if n_folds >= _WORTHWHILE else n_folds


def still_running(candidates: Sequence[Candidate], scores: FloatArray) -> list[int]:
    """Candidates worth scoring on more folds: the controls, and weightings not behind the best equal weights.

    ``scores`` are ``(n_candidates, n_folds)`` so far.
    """
    kinds = [candidate.control for candidate in candidates]
    equal = max((i for i, kind in enumerate(kinds) if kind == EQUAL), key=lambda i: scores[i].mean())
    t = student_t(scores - scores[equal])
    return [i for i, kind in enumerate(kinds) if kind is not None or t[i] > _BEHIND]


def is_settled(candidates: Sequence[Candidate], running: Sequence[int]) -> bool:
    """Whether nothing is left to decide: one setting with equal weights, and no other candidate."""
    return len(running) == 1 and candidates[running[0]].control == EQUAL


def fill_in(scores: FloatArray, running: Sequence[int], later: FloatArray) -> FloatArray:
    """Scores of all folds; NaN where a dropped candidate was not fitted."""
    missing = np.full((len(scores), *later.shape[1:]), np.nan)
    missing[running] = later
    return np.concatenate([scores, missing], axis=1)
