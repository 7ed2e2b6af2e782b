import re

import numpy as np
import pytest

from campaign_simulators import BOUNDS, raises, spoils, wave
from steep import SteepError, SteepWarning
from steep.campaign import Campaign
from steep.domain.axes import Integer
from steep.exceptions import InputError, StorageError


def test_runs_gather_where_the_function_is_steep(campaign):
    campaign.run(wave, 80)
    frame = campaign.to_dataframe()
    placed = frame[frame.origin == "design"]
    assert len(frame) == 80
    assert np.mean(np.abs(placed.u0 - 0.7) < 0.2) > 0.55  # 0.4 by chance


@pytest.mark.parametrize("executor", [None, "threads", "processes"])
def test_every_executor_makes_exactly_the_runs_asked_for(storage, executor):
    with Campaign(BOUNDS, storage=storage) as campaign:
        campaign.run(wave, 16, executor=executor, n_workers=2)
        assert (campaign.n_done, len(campaign.pending)) == (16, 0)
        np.testing.assert_array_equal(campaign.y, [wave(*x) for x in campaign.X])
        campaign.run(wave, 16, executor=executor)  # nothing is left to do
        assert campaign.n_done == 16


def test_a_run_that_raises_is_retried_then_given_up_and_listed(campaign):
    campaign.run(raises, 24, retries=2)
    failures = campaign.failures()
    assert campaign.n_failed > 0
    assert campaign.n_done + campaign.n_failed == 24
    assert (failures.groupby("run").size() == 3).all()
    assert failures.message.str.contains("ValueError: too late").all()
    assert failures.traceback.str.contains("raise ValueError").all()
    assert (failures.t > 8).all()


def test_where_runs_fail_fewer_are_asked(campaign):
    campaign.run(raises, 80, retries=0)
    frame = campaign.to_dataframe()
    placed = frame[frame.origin == "design"]
    assert np.mean(placed.t > 8) < 0.15  # 0.2 by chance, and it would look steep there


@pytest.mark.parametrize(
    ("value", "kind"),
    [(np.nan, "nan"), ([1.0, 2.0], "shape"), ({"other": 1.0}, "shape"), ("text", "exception"), (None, "nan")],
)
def test_an_answer_that_cannot_be_used_is_a_failure(storage, value, kind):
    with Campaign(BOUNDS, outputs=["f"], storage=storage) as campaign:
        campaign.run(lambda u0, t: value if t > 5 else u0, 8, retries=0)
        assert set(campaign.failures().kind) == {kind}
        assert campaign.n_done == 8 - campaign.n_failed > 0


def test_stopping_early_by_runs_time_error_or_choice(tmp_path):
    def run(stop_when, name):
        with Campaign(BOUNDS, storage=tmp_path / f"{name}.db", n_initial=12) as campaign:
            campaign.run(lambda u0, t: u0 + t, 40, stop_when=stop_when)
            return campaign.n_done

    assert run({"runs": 5}, "runs") == 5
    assert run({"seconds": 0.0}, "seconds") == 0
    assert run(lambda campaign: campaign.n_done >= 3, "choice") == 3
    assert 16 + 20 <= run({"error": 1e-3}, "error") < 40  # a plane is predicted exactly, which 20 check runs show
    with pytest.raises(InputError, match=r"unknown entries \['hours'\]"):
        run({"hours": 1}, "hours")


def test_a_campaign_says_why_it_stopped(storage):
    campaign = Campaign(BOUNDS, storage=storage, n_initial=20)
    wanted = [
        ({"runs": 25}, "25 runs are done, at least 25 were asked for"),
        ({"seconds": 0}, "seconds have passed, at most 0 were allowed"),
        (lambda campaign: True, "stop_when returned True"),
    ]
    for stop_when, reason in wanted:
        campaign.run(lambda u0, t: u0 + t, 40, stop_when=stop_when)
        assert re.search(reason, campaign.stop_reason)
    campaign.run(lambda u0, t: u0 + t, 26)
    assert campaign.stop_reason is None
    campaign.close()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"executor": "cluster"}, "executor='cluster' is unknown"),
        ({"executor": 3}, "executor=3 is unknown"),
        ({"timeout": 1.0, "executor": "threads"}, "timeout needs executor='processes'"),
        ({"pass_as": "list"}, "pass_as='list' is unknown"),
        ({"retries": -1}, "retries=-1 is too small"),
        ({"n_runs": 0}, "n_runs=0 is too small"),
        ({"function": 3}, "function is a int; expected a callable"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(campaign, kwargs, message):
    with pytest.raises(SteepError, match=message):
        campaign.run(**{"function": wave, "n_runs": 4} | kwargs)
    assert len(campaign.to_dataframe()) == 0


def test_a_list_of_bounds_passes_arrays(storage):
    with Campaign([(0, 1), (0, 1)], storage=storage) as campaign:
        campaign.run(lambda x: x.sum(), 6)
        np.testing.assert_allclose(campaign.y, campaign.X.sum(axis=1))


def test_the_rule_looks_after_every_result_and_the_bar_counts(campaign, capsys):
    seen = []
    campaign.run(wave, 6, stop_when=lambda c: seen.append(c.n_done), progress=True)
    assert sorted({*seen}) == [0, 1, 2, 3, 4, 5, 6]
    bar = capsys.readouterr().err
    assert "6/6" in bar
    assert "running=0, failed=0" in bar


def test_the_bar_is_silent_without_a_terminal(campaign, capsys):
    campaign.run(wave, 2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("odd", [{}, [], np.empty(0)])
def test_a_run_without_outputs_fails_and_the_campaign_stays_readable(storage, odd):
    answers = [odd]
    with Campaign(BOUNDS, storage=storage) as campaign:
        campaign.run(lambda u0, t: answers.pop() if answers else {"u": 1.0}, 5, retries=0)
        assert campaign.failures().message.tolist() == ["the run returned no outputs; expected at least one number"]
    with Campaign(storage=storage) as again:
        assert again.outputs == ("u",)
        assert len(again.to_dataframe()) == 5
        assert again.y.tolist() == [1.0] * 4


@pytest.mark.parametrize("executor", [None, "threads", "processes"])
def test_every_attempt_gets_the_inputs_as_they_were_asked(storage, tmp_path, monkeypatch, executor):
    monkeypatch.setenv("STEEP_TEST_FLAGS", str(tmp_path))
    with Campaign([(0, 1), (0, 1)], storage=storage) as campaign:
        campaign.run(spoils, 4, executor=executor, n_workers=1, retries=1)
        assert (campaign.n_done, len(campaign.failures())) == (4, 4)
        np.testing.assert_allclose(campaign.y, campaign.X.sum(axis=1))


def test_a_failure_with_text_that_is_no_unicode_is_recorded(campaign):
    class MuteError(Exception):
        def __str__(self):
            raise RuntimeError

    def fails(u0, t):
        raise ValueError("\udcff") if t > 5 else MuteError

    campaign.run(fails, 4, retries=0)
    assert campaign.n_failed == 4
    assert set(campaign.failures().message) == {"ValueError: \\udcff", "MuteError (its message raises RuntimeError)"}


def test_a_large_batch_is_planned_only_as_far_as_the_budget(campaign):
    campaign.run(wave, 12, executor="threads", n_workers=100)
    assert len(campaign.to_dataframe()) == 12


def test_a_run_on_a_domain_that_is_used_up_ends_with_a_warning(storage):
    with Campaign({"a": Integer(1, 4)}, storage=storage) as campaign:
        with pytest.warns(SteepWarning, match="ended with 4 of 10 runs") as caught:
            campaign.run(lambda a: a**2, 10)
        assert caught[0].filename == __file__
        assert sorted(campaign.y) == [1, 4, 9, 16]


def test_runs_that_could_not_be_released_are_asked_again(storage, monkeypatch):
    with Campaign(BOUNDS, storage=storage) as campaign:
        release = campaign.journal.each

        def full(*args, **kwargs):
            raise StorageError("disk is full")

        monkeypatch.setattr(campaign.journal, "finish", full)
        monkeypatch.setattr(campaign.journal, "each", full)
        with pytest.raises(StorageError, match="disk is full"):
            campaign.run(wave, 12)
        monkeypatch.undo()
        assert campaign.journal.each == release
        campaign.run(wave, 12)
        assert (campaign.n_done, len(campaign.pending), campaign.unsaved) == (12, 0, [])


@pytest.mark.parametrize(
    ("stop_when", "message"),
    [
        ({"runs": "a"}, r"stop_when\['runs'\]='a' is a str"),
        ({"error": 10**400}, r"stop_when\['error'\]=1000.* is out of range"),
        ({"seconds": -1}, r"stop_when\['seconds'\]=-1 is out of range"),
        (5, "stop_when is a int; expected a mapping"),
    ],
)
def test_a_limit_that_is_no_number_is_refused(campaign, stop_when, message):
    with pytest.raises(SteepError, match=message):
        campaign.run(wave, 2, stop_when=stop_when)
    assert len(campaign.to_dataframe()) == 0


def test_run_documents_every_option():
    import inspect

    names = [name for name in inspect.signature(Campaign.run).parameters if name != "self"]
    assert "options" not in names
    assert all(name in (Campaign.run.__doc__ or "") for name in names)
