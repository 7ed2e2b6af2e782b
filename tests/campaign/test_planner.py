import numpy as np
import pytest

from campaign_simulators import BOUNDS, wave
from steep import surprise_variation
from steep.campaign import Campaign
from steep.campaign.planner import Planner
from steep.exceptions import InputError, InputTypeError
from steep.measures import MEASURES, Measure
from steep.measures.surprise import surprise
from steep.sampling import Adaptive, Even, Taylor, Variance, VariationSampler
from steep.sampling.process import axis_relevance


def test_points_asked_are_inside_and_all_different(campaign):
    X = np.vstack([campaign.ask(7) for _ in range(6)])
    assert campaign.box.contains(X).all()
    assert len(np.unique(X, axis=0)) == 42


def test_a_campaign_goes_on_with_the_same_stream_after_a_restart(tmp_path):
    def points(path, restart):
        campaign = Campaign(BOUNDS, storage=path, n_initial=8, random_state=3)
        for _ in range(4):
            X = campaign.ask(6)
            campaign.tell(X, [wave(*x) for x in X])
            if restart:
                campaign.close()
                campaign = Campaign(storage=path, n_initial=8)
        X = campaign.X
        campaign.close()
        return X

    np.testing.assert_array_equal(points(tmp_path / "a.db", False), points(tmp_path / "b.db", True))


def test_a_point_that_another_process_just_asked_is_not_asked_twice(storage, monkeypatch):
    plan, stolen = Planner.next_points, []
    with Campaign(BOUNDS, storage=storage, n_initial=1) as first, Campaign(storage=storage) as second:
        first.ask(1)

        def overtaken(*args, **kwargs):
            """Another process commits the first of the points while this one plans."""
            points = plan(*args, **kwargs)
            if not stolen:
                stolen.append(points[:1])
                with second.journal.transaction():
                    second.journal.add(points[:1], origin="design", owner=second._owner)
            return points

        monkeypatch.setattr(Planner, "next_points", overtaken)
        asked = first.ask(3)
        assert len(asked) == 3
        assert stolen[0][0].tolist() not in asked.tolist()


@pytest.mark.slow
def test_asking_measures_a_bounded_part_of_a_hundred_thousand_results(storage):
    measured = []

    def counted(X, y):
        measured.append(len(X))
        return np.ones(len(X))

    with Campaign(BOUNDS, storage=storage, strategy=Adaptive(counted)) as campaign:
        rng = np.random.default_rng(0)
        X = rng.random((100_000, 2)) * [1, 10]
        campaign.tell(X, [wave(*x) for x in X])
        campaign.ask(20)  # the start
        assert len(campaign.ask(1)) == 1
    assert max(measured) <= 2048


def test_a_plan_is_what_the_sampler_draws(storage):
    measure = Measure("mine", lambda around: surprise(around), size=MEASURES["surprise"].size)
    with Campaign(BOUNDS, storage=storage, strategy=Adaptive(measure)) as campaign:
        X = campaign.ask(12)
        campaign.tell(X, [wave(*x) for x in X])
        plan = campaign.journal.meta()["plans"]
        box = campaign.box
        sampler = VariationSampler(
            box, draw="fill", temper=0.6, floor=0.15, random_state=np.random.default_rng([0, plan])
        )
        embedded = box.embed(box.unit(campaign.X))
        variation = surprise_variation(embedded, campaign.y)
        scale = axis_relevance(embedded, campaign.y[:, None])
        sampler.fit_unit(box.unit(campaign.X), embedded, variation, occupied=embedded[:0], scale=scale)
        np.testing.assert_allclose(campaign.ask(3), sampler.sample(3))


def test_part_of_a_plan_goes_on_with_the_sobol_sequence_of_the_start(storage):
    with Campaign([(0, 1)] * 3, storage=storage, n_initial=16) as campaign:
        X = campaign.ask(16)
        campaign.tell(X, np.tanh(9 * (X[:, 0] - 0.5)))
        asked = campaign.ask(20)
        sequence = campaign.box.sobol(64, random_state=0).tolist()
        assert 9 <= sum(x in sequence for x in asked.tolist()) <= 11  # half, while there is nothing to compare
        assert "follow the variation in part" in str(campaign.to_design().hedge)


def test_a_campaign_whose_placed_runs_are_worth_nothing_goes_on_as_sobol_points_do(storage):
    with Campaign([(0, 1)] * 3, storage=storage, n_initial=40) as campaign:
        X = campaign.ask(40)
        campaign.tell(X, np.sin(3 * X[:, 0]) + X[:, 1])
        corner = 0.01 * np.random.default_rng(0).random((40, 3))
        campaign.tell(corner, np.sin(3 * corner[:, 0]) + corner[:, 1])
        np.testing.assert_array_equal(campaign.ask(8), campaign.box.sobol(48, random_state=0)[40:])
        assert campaign.to_design().hedge.share == 0


LABEL_MEASURES = [name for name, measure in MEASURES.items() if measure.needs == "labels"]


@pytest.mark.parametrize("name", LABEL_MEASURES)
def test_any_measure_of_labels_plans_and_is_remembered(storage, name):
    with Campaign(BOUNDS, storage=storage, strategy=Adaptive(name)) as campaign:
        campaign.run(wave, 16)
        assert campaign.n_done == 16
    with Campaign(storage=storage) as again:
        assert again.strategy.measure == name
        assert campaign.box.contains(again.ask(2)).all()
    with Campaign(BOUNDS, storage=storage, strategy=Adaptive(name)):
        pass
    other = next(other for other in LABEL_MEASURES if other != name)
    with pytest.raises(InputError, match=f"measure='{other}'.* but storage .* was started with .*'{name}'"):
        Campaign(storage=storage, strategy=Adaptive(other))


@pytest.mark.parametrize("name", sorted(set(MEASURES) - set(LABEL_MEASURES)))
def test_a_measure_that_a_campaign_cannot_feed_is_refused_by_name(storage, name):
    with pytest.raises(InputError, match=f"measure='{name}' .* which Campaign cannot give it"):
        Campaign(BOUNDS, storage=storage, strategy=Adaptive(name))
    assert not storage.exists()


def test_a_measure_of_the_callers_own_is_followed_and_asked_for_again(storage):
    def corner(X, y):
        return (X[:, 0] > 0.8).astype(float)

    with Campaign(BOUNDS, storage=storage, strategy=Adaptive(corner)) as campaign:
        campaign.run(wave, 50)
        placed = campaign.to_dataframe().query("origin == 'design'")
        assert np.mean(placed.u0 > 0.7) > 0.6  # 0.3 by chance
    with pytest.raises(InputError, match=r"started with the measure 'corner', .* pass strategy=Adaptive.* again"):
        Campaign(storage=storage)
    Campaign(storage=storage, strategy=Adaptive(corner)).close()


@pytest.mark.parametrize("strategy", [Even(), Variance(n_neighbors=5), Adaptive(rounds=3, epsilon=[0.1, 0.2])])
def test_every_strategy_runs_and_is_remembered(storage, strategy):
    with Campaign(BOUNDS, storage=storage, strategy=strategy) as campaign:
        campaign.run(wave, 24)
        assert campaign.n_done == 24
        if isinstance(strategy, Even):
            np.testing.assert_array_equal(campaign.X, campaign.box.sobol(24, random_state=0))
    with Campaign(storage=storage) as again:
        assert type(again.strategy) is type(strategy)
        assert len(again.ask(2)) == 2
    Campaign(storage=storage, strategy=strategy).close()
    with pytest.raises(InputError, match="was started with"):
        Campaign(storage=storage, strategy=Variance(n_neighbors=6))


def test_a_stored_draw_of_an_earlier_version_is_the_default(storage):
    with Campaign(BOUNDS, storage=storage, strategy=Adaptive("variance")) as campaign:
        name, settings = campaign.journal.meta()["strategy"]
        with campaign.journal.transaction():
            campaign.journal.set_meta("strategy", [name, settings | {"draw": "doubt"}])
    with Campaign(storage=storage) as again:
        again.run(wave, 16)
        assert (again.n_done, again.strategy) == (16, Adaptive("variance"))
    Campaign(storage=storage, strategy=Adaptive("variance")).close()


@pytest.mark.parametrize("strategy", [Taylor(), "surprise", 3, Adaptive])
def test_a_strategy_that_a_campaign_cannot_follow_is_rejected(storage, strategy):
    with pytest.raises(InputTypeError, match=r"a campaign needs Adaptive\(\), Variance\(\) or Even\(\)"):
        Campaign(BOUNDS, storage=storage, strategy=strategy)
    assert not storage.exists()
