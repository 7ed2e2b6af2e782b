import contextlib
import threading

import numpy as np
import pytest

from campaign_simulators import BOUNDS, wave
from steep import SteepError
from steep.campaign import Campaign
from steep.domain.axes import Category, Integer
from steep.exceptions import CampaignError, InputError, InputTypeError


def test_what_was_told_is_there_when_opened_again(storage):
    with Campaign(BOUNDS, outputs=["f"], storage=storage) as first:
        X = first.ask(5)
        first.tell(X[:3], X[:3].sum(axis=1))
    with Campaign(storage=storage) as again:
        assert again.box == first.box
        np.testing.assert_array_equal(again.X, X[:3])
        np.testing.assert_array_equal(again.y, X[:3].sum(axis=1))
        np.testing.assert_array_equal(again.pending, X[3:])
        assert again.outputs == ("f",)


def test_runs_in_flight_of_a_closed_campaign_are_asked_again_and_those_of_an_open_one_are_not(storage):
    with Campaign(BOUNDS, storage=storage) as first:
        X = first.ask(4)
        with Campaign(storage=storage) as other:
            assert not {tuple(x) for x in other.ask(4)} & {tuple(x) for x in X}
    with Campaign(storage=storage) as again:
        assert {tuple(x) for x in X} <= {tuple(x) for x in again.ask(8)}


def test_foreign_results_are_kept_and_marked(campaign):
    campaign.tell([[0.5, 5.0], [2.0, 5.0]], [1.0, 2.0])
    frame = campaign.to_dataframe()
    assert frame.origin.tolist() == ["foreign", "foreign"]
    assert frame.inside.tolist() == [True, False]
    assert campaign.X.tolist() == [[0.5, 5.0]]
    campaign.run(wave, 12)
    assert campaign.n_done == 14  # foreign runs are no part of the budget


def test_a_result_told_twice_counts_once_and_a_different_one_is_refused(campaign):
    X = campaign.ask(2)
    campaign.tell(X, [1.0, 2.0])
    campaign.tell(X, [1.0, 2.0])
    assert campaign.n_done == 2
    with pytest.raises(InputError, match="has another result already; nothing was recorded"):
        campaign.tell([[0.1, 0.1], X[0]], [0.0, 9.0])
    assert campaign.n_done == 2


def test_a_failure_told_by_hand_is_not_asked_again(campaign):
    X = campaign.ask(2)
    campaign.tell_failure(X[:1], "licence expired")
    assert campaign.pending.tolist() == X[1:].tolist()
    assert campaign.failures().message.tolist() == ["licence expired"]
    with pytest.raises(InputError, match="is not pending"):
        campaign.tell_failure([[0.123, 1.0]])


def test_a_failure_told_with_retries_is_asked_again(campaign):
    X = campaign.ask(1)
    campaign.tell_failure(X, retries=1)
    np.testing.assert_array_equal(campaign.ask(1), X)
    campaign.tell_failure(X, retries=1)
    assert campaign.n_failed == 1
    assert campaign.ask(1).tolist() != X.tolist()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"bounds": {"u0": (0.0, 2.0), "t": (0.0, 10.0)}}, "bounds are .* but storage .* has"),
        ({"bounds": {"u": (0.0, 1.0), "t": (0.0, 10.0)}}, "bounds are .* but storage .* has"),
        ({"outputs": ["g"]}, r"outputs are \['g'\] but storage .* has \['f'\]"),
        ({"random_state": 5}, "random_state=5 but storage .* was started with 0"),
    ],
)
def test_a_storage_about_something_else_is_refused(storage, kwargs, message):
    Campaign(BOUNDS, outputs=["f"], storage=storage).close()
    with pytest.raises(InputError, match=message):
        Campaign(**{"storage": storage} | kwargs)
    Campaign(BOUNDS, outputs=["f"], storage=storage).close()


def test_outputs_of_another_number_are_refused_and_the_journal_stays(campaign):
    campaign.tell([[0.1, 0.1]], [[1.0, 2.0]])
    with pytest.raises(InputError, match="y has 1 outputs, expected 2"):
        campaign.tell([[0.2, 0.2]], [1.0])
    with pytest.raises(InputError, match="NaN"):
        campaign.tell([[0.2, 0.2]], [[1.0, np.nan]])
    assert campaign.n_done == 1


def test_a_refused_first_result_leaves_nothing_behind(storage):
    with Campaign(BOUNDS, storage=storage) as campaign:
        X = campaign.ask(2)
        with Campaign(storage=storage) as other:
            other.tell([[0.5, 0.5]], [[1.0, 2.0]])
            with pytest.raises(InputError, match="y has 1 outputs, expected 2"):
                campaign.tell(X, [1.0, 2.0])
        campaign.tell(X, np.ones((2, 2)))
    with Campaign(storage=storage) as again:
        assert again.outputs == ("y0", "y1")
        assert again.y.shape == (3, 2)


def test_a_first_result_that_contradicts_itself_is_refused_and_the_file_stays_readable(storage):
    with Campaign(BOUNDS, storage=storage) as campaign:
        with pytest.raises(InputError, match="has another result already"):
            campaign.tell([[0.1, 0.1], [0.1, 0.1]], [[1.0, 2.0], [3.0, 4.0]])
        assert campaign.outputs is None
        campaign.tell([[0.1, 0.1]], [5.0])
    with Campaign(storage=storage) as again:
        assert again.outputs == ("y0",)
        assert again.y.tolist() == [5.0]


def test_outputs_are_filed_by_name_whoever_names_them_first(storage):
    with Campaign(BOUNDS, storage=storage) as first, Campaign(storage=storage) as second:
        jobs = first._ask(3)
        first._finish(jobs[0][0], [1.0, 2.0], ("u", "v"))
        second._finish(jobs[1][0], [2.0, 1.0], ("v", "u"))
        with pytest.raises(InputError, match=r"outputs are \['u', 'w'\], expected \['u', 'v'\]"):
            second._finish(jobs[2][0], [1.0, 2.0], ("u", "w"))
        assert first.unsaved == second.unsaved == []
        assert second.y.tolist() == [[1.0, 2.0], [1.0, 2.0]]


@pytest.mark.parametrize(
    "y",
    [
        np.ones((2, 3)),
        np.ones((6, 1)),
        [1.0, 2.0],
        ["a", "b", "c"],
        [1.0, None, 2.0],
        [1, 2, 10**400],
        [[1], [1, 2], [3]],
        np.ones((3, 1, 1)),
        [1.0, np.nan, 2.0],
        np.ones((3, 0)),
        None,
        {"a": 1},
    ],
)
def test_labels_that_do_not_fit_the_points_are_refused_and_never_reshaped(campaign, y):
    X = campaign.ask(3)
    with pytest.raises(SteepError, match="y "):
        campaign.tell(X, y)
    assert campaign.n_done == 0


def test_a_vector_told_for_one_point_is_its_outputs(campaign):
    campaign.tell(campaign.ask(1), [1.0, 2.0])
    assert campaign.y.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("outputs", [[], ["a", "a"], "ab", [1], 3])
def test_outputs_need_different_names(storage, outputs):
    with pytest.raises(SteepError, match="outputs"):
        Campaign(BOUNDS, outputs=outputs, storage=storage)


@pytest.mark.parametrize(
    "values",
    [
        [("a", 1), ("b", 2)], [1.5, float("nan")], [b"a", b"b"], [np.int64(1), np.float64(2.5)], [1, "1", None],
        [True, "\ud800", 5e-324], [10**30, -1],
    ],
)  # fmt: skip
def test_values_come_back_from_the_file_or_are_refused_before_it_is_written(storage, values):
    try:
        axis = Category(*values)
        Campaign({"m": axis}, storage=storage).close()
    except SteepError:
        assert not storage.exists()
        return
    with Campaign(storage=storage) as again:
        (found,) = again.box.axes
        assert [(type(v), v) for v in found.values] == [(type(v), v) for v in axis.values]


def test_bounds_with_names_mean_keywords_even_those_of_the_defaults(storage):
    with Campaign({"x0": (0.0, 1.0), "x1": (0.0, 1.0)}, storage=storage) as campaign:
        campaign.run(lambda x0, x1: x0 + x1, 4)
        assert campaign.n_done == 4
    with Campaign(storage=storage) as again:
        again.run(lambda x0, x1: x0 + x1, 6)
        assert again.n_done == 6


def test_a_domain_that_is_used_up_says_so(storage):
    with Campaign({"a": Integer(1, 3), "b": ["x", "y"]}, storage=storage, n_initial=4) as campaign:
        X = np.vstack([campaign.ask(4), campaign.ask(4)])
        assert len(np.unique(X, axis=0)) == len(X) == 6
        with pytest.raises(CampaignError, match=r"no new point was found .* 6 pending"):
            campaign.ask(1)


@pytest.mark.parametrize("storage", [None, "", " ", 3, b"file.db"])
def test_a_storage_that_is_no_path_is_refused(storage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((InputError, InputTypeError), match="':memory:' for a campaign that is kept nowhere"):
        Campaign(BOUNDS, storage=storage)
    assert list(tmp_path.iterdir()) == []


def test_use_from_another_thread_says_so(campaign):
    caught = []

    def use():
        for call in (lambda: campaign.ask(1), lambda: campaign.n_done, campaign.close):
            try:
                call()
            except CampaignError as error:
                caught.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join(60)
    assert len(caught) == 3
    assert all("was opened in another thread; open it again in this one" in text for text in caught)
    campaign.ask(1)


def test_a_closed_campaign_says_so_and_may_be_closed_again(storage):
    campaign = Campaign(BOUNDS, storage=storage)
    campaign.close()
    campaign.close()
    with pytest.raises(CampaignError, match="is closed"):
        campaign.ask(1)


ODD = [
    None, True, 0, -1, 3, 10**400, 1.5, np.nan, np.inf, "", "a", "u0", b"x", [], [1, 2], [[1.0]], [[1, 2]], {}, (),
    {"runs": "a"}, {"runs": 2}, np.ones((2, 2)), np.array([["a", "b"]]), object(), lambda *a, **k: 1.0, [[None, 1]],
    [[10**400, 1]], np.ones((2, 2), dtype=complex), [{"a": 1}], "\ud800", np.array(5), {"u0": [1]}, 5e-324,
]  # fmt: skip


def test_odd_arguments_work_or_raise_a_steep_error(tmp_path):
    rng = np.random.default_rng(0)

    def odd():
        return ODD[rng.integers(len(ODD))]

    def run(campaign):
        options = ["n_runs", "n_workers", "retries", "timeout", "stop_when"]
        options += ["pass_as", "executor", "function", "progress"]
        sound = {"function": wave, "n_runs": 4, "stop_when": {"runs": 3}}
        name = options[rng.integers(len(options))]
        value = odd()
        if name == "progress":
            value = bool(value) if not isinstance(value, np.ndarray) else False
        campaign.run(**sound | {name: value})

    doors = [
        lambda c: Campaign(odd(), storage=":memory:").close(),
        lambda c: Campaign({"a": odd()}, storage=":memory:").close(),
        lambda c: Campaign(BOUNDS, outputs=odd(), storage=":memory:").close(),
        lambda c: Campaign(BOUNDS, n_initial=odd(), random_state=odd(), storage=":memory:").close(),
        lambda c: Campaign(BOUNDS, storage=odd() if rng.random() < 0.5 else tmp_path / str(odd())).close(),
        lambda c: c.ask(odd()),
        lambda c: c.tell(odd(), odd()),
        lambda c: c.tell([[0.1, 0.2], [0.3, rng.random()]], odd()),
        lambda c: c.tell_failure(odd(), odd(), retries=odd()),
        lambda c: c.load_dataframe(odd()),
        run,
    ]
    with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for case in range(300):
            with Campaign(BOUNDS, storage=":memory:", n_initial=2) as campaign:
                door = doors[case % len(doors)]
                with contextlib.suppress(SteepError):
                    door(campaign)
                assert campaign.n_done >= 0
