"""What a search would have found, made up: heads known by their answers alone."""

import numpy as np

from steep.nn.candidates import ORIGINAL, FittedHead, HeadCandidate, ScoredHeads
from steep.nn.choose import choose_head, deal_folds
from steep.nn.heads import Head, HeadSamples

NO_HEAD = Head(np.zeros((1, 1)), None)


def found_heads(answers, score, n_equal):
    """The original head, equal-weight heads with ever weaker penalty, and weighted heads."""
    candidates = [ORIGINAL, *(HeadCandidate("equal", 10.0**-power) for power in range(n_equal))]
    candidates += [HeadCandidate("weighted", 1.0, 2.0 + i, n_neighbors=10) for i in range(len(answers) - 1 - n_equal)]
    values = score.values(answers)
    heads = [
        FittedHead(candidate, NO_HEAD, None, (kept,), (float(value),))
        for candidate, kept, value in zip(candidates, answers, values, strict=True)
    ]
    held_out, fold = (
        HeadSamples(np.zeros((answers.shape[1], 1)), score.targets),
        deal_folds(score, np.random.default_rng(0)),
    )
    return ScoredHeads(heads, [score], held_out, score.task, fold)


def choose_among(answers, score, n_equal, **settings):
    """The heads, and the choice among them."""
    return choose_head(found_heads(answers, score, n_equal), **settings)
