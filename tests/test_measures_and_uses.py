"""The architecture as a law: any measure goes with any use that can feed it, and the others are rejected by name."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import steep
from steep.exceptions import InputError
from steep.measures import MEASURES, Measure

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
CLASSES = (X[:, 0] + 0.5 * RNG.normal(size=60) > 0).astype(int)


def simulator(X):
    return np.tanh(8 * (X[:, 0] - 0.4)) * X[:, 1]


def use_design(measure):
    return steep.design(
        simulator, [(0, 1), (0, 1)], 18, n_initial=12, strategy=steep.Adaptive(measure, rounds=2), random_state=0
    ).X


def use_campaign(measure):
    with steep.Campaign(
        [(0, 1), (0, 1)], storage=":memory:", strategy=steep.Adaptive(measure), n_initial=12
    ) as campaign:
        start = campaign.ask(12)
        campaign.tell(start, simulator(start))
        return campaign.ask(4)


def use_sample_weights(measure):
    return steep.sample_weights(X, CLASSES, measure=measure, n_neighbors=8)


def use_variance_weighted(measure):
    model = steep.VarianceWeighted(LogisticRegression(), measure=measure, n_neighbors=8)
    return model.fit(X, CLASSES).sample_weight_


def use_variance_weighted_cv(measure):
    model = steep.VarianceWeightedCV(
        LogisticRegression(),
        measure=measure,
        n_neighbors=(8,),
        weight_ratio=(5.0,),
        cv=2,
        search=steep.WeightSearch(n_repeats=1),
        random_state=0,
    )
    return model.fit(X, CLASSES).sample_weight_


def _network():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    return network, torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(CLASSES)


def use_retrain_head(measure):
    network, inputs, classes = _network()  # skips where torch is missing, so before steep.nn
    from steep import nn

    return nn.retrain_head(network, inputs, classes, measure=measure, n_neighbors=8)(inputs).detach().numpy()


def use_improve(measure):
    network, inputs, classes = _network()  # skips where torch is missing, so before steep.nn
    from steep import nn

    search = nn.HeadSearch(measure=measure, n_neighbors=(8,), weight_ratio=(5.0,), l2=(1e-3,))
    result = nn.improve(network, (inputs[:40], classes[:40]), (inputs[40:], classes[40:]), search=search)
    return result.weights


# What each use can give a measure.
USES = {
    "design": (use_design, {"function", "labels"}),
    "Campaign": (use_campaign, {"labels"}),
    "sample_weights": (use_sample_weights, {"labels"}),
    "VarianceWeighted": (use_variance_weighted, {"labels", "model"}),
    "VarianceWeightedCV": (use_variance_weighted_cv, {"labels", "model"}),
    "retrain_head": (use_retrain_head, {"labels", "model"}),
    "improve": (use_improve, {"labels", "model"}),
}
PAIRS = [(use, measure) for use in USES for measure in MEASURES]


@pytest.mark.parametrize(("use", "measure"), [p for p in PAIRS if MEASURES[p[1]].needs in USES[p[0]][1]])
def test_any_measure_goes_with_any_use_that_can_feed_it(use, measure):
    result = np.asarray(USES[use][0](measure))
    assert np.isfinite(result).all()
    assert len(result) > 0


@pytest.mark.parametrize(("use", "measure"), [p for p in PAIRS if MEASURES[p[1]].needs not in USES[p[0]][1]])
def test_what_a_use_cannot_feed_is_refused_by_name(use, measure):
    with pytest.raises(InputError, match=rf"measure='{measure}' .*, which {use} cannot give it; expected one of"):
        USES[use][0](measure)


@pytest.mark.parametrize("use", USES)
def test_a_measure_added_by_one_line_is_there_in_every_use(use, monkeypatch):
    asked = []

    def planted(around):
        asked.append(around)
        return np.arange(1.0, len(around.points) + 1)

    monkeypatch.setitem(MEASURES, "planted", Measure("planted", planted))
    USES[use][0]("planted")
    assert asked


@pytest.mark.parametrize("use", USES)
def test_a_measure_may_be_a_function_of_the_callers_own(use):
    asked = []

    def own(X, y):
        asked.append(len(X))
        return np.arange(1.0, len(X) + 1)

    USES[use][0](own)
    assert asked


@pytest.mark.parametrize("use", USES)
def test_an_unknown_measure_is_refused_with_the_names_of_those_there_are(use):
    known = [name for name, measure in MEASURES.items() if measure.needs in USES[use][1]]
    with pytest.raises(
        InputError, match="measure='steepest' is unknown; expected one of " + ", ".join(map(repr, known))
    ):
        USES[use][0]("steepest")


def test_every_measure_has_a_use():
    fed = {needs for _, feeds in USES.values() for needs in feeds}
    assert {measure.needs for measure in MEASURES.values()} <= fed
