from functools import partial

import pytest

from campaign_simulators import wave
from steep.campaign import Campaign, command_simulator
from steep.campaign.runner import Streak
from steep.campaign.simulate import Failure
from steep.exceptions import CampaignError, InputError


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda u0, time: 0.0, r"function takes \(u0, time\) and is given u0=…, t=… .*rename its arguments"),
        (lambda u0: 0.0, r"function takes \(u0\) and is given u0=…, t=…"),
        (lambda u0, t, k: 0.0, r"function takes \(u0, t, k\) and is given u0=…, t=…"),
        (lambda x: 0.0, r"function takes \(x\) and is given u0=…, t=…"),
        (command_simulator("echo {u0} {time}"), r"function takes \(.*time.*\) and is given u0=…, t=…"),
    ],
)
def test_a_function_that_does_not_take_the_inputs_is_refused_before_the_first_run(campaign, function, message):
    with pytest.raises(InputError, match=message):
        campaign.run(function, 20)
    assert len(campaign.to_dataframe()) == 0


@pytest.mark.parametrize(
    "function",
    [lambda **inputs: inputs["t"], lambda u0, *, t, k=3: t, partial(lambda k, u0, t: t, 1), lambda t, u0=0.5: t, dict],
)
def test_a_function_that_takes_the_inputs_is_run(campaign, function):
    campaign.run(function, 2, max_failures=None)
    assert campaign.n_asked == 2


def test_a_function_that_takes_no_array_is_refused(storage):
    with Campaign([(0, 1), (0, 1)], storage=storage) as campaign:
        with pytest.raises(InputError, match=r"function takes \(a, b\) and is given one array"):
            campaign.run(lambda a, b: a, 4)
        with pytest.raises(InputError, match="is given one mapping"):
            campaign.run(lambda: 0.0, 4, pass_as="mapping")


@pytest.mark.parametrize("executor", [None, "threads"])
def test_first_runs_that_fail_alike_stop_the_campaign_and_burn_nothing(campaign, executor):
    def broken(u0, t):
        raise NameError(f"name 'solver' is not defined at {t}")

    with pytest.raises(CampaignError, match=r"5 runs in a row failed in the same way \(NameError: .*are kept"):
        campaign.run(broken, 20, executor=executor, n_workers=2)
    assert campaign.n_failed == 0
    assert len(campaign.failures()) >= 5
    campaign.run(wave, 20)
    assert (campaign.n_done, campaign.n_failed, len(campaign.pending)) == (20, 0, 0)


def test_later_many_in_a_row_stop_it_too(campaign):
    campaign.run(wave, 8)

    def licence_lost(u0, t):
        if campaign.n_done < 10:
            return wave(u0, t)
        raise OSError("no licence")

    with pytest.raises(CampaignError, match=r"7 runs in a row failed in the same way \(OSError: no licence\)"):
        campaign.run(licence_lost, 48, retries=0, max_failures=7)
    assert (campaign.n_done, campaign.n_failed) == (10, 0)
    campaign.run(wave, 48)
    assert (campaign.n_done, campaign.n_failed) == (48, 0)


def test_where_failures_are_expected_none_stops_it(campaign):
    campaign.run(lambda u0, t: 1 / 0, 30, retries=0, max_failures=None)
    assert campaign.n_failed == 30


def test_failures_that_differ_or_alternate_with_results_are_no_streak(campaign):
    def odd(u0, t):
        if int(100 * t) % 2:
            raise ValueError("odd")
        return t

    campaign.run(odd, 60, retries=0, max_failures=20)
    assert campaign.n_failed > 15
    streak = Streak(3)
    for number in range(20):
        assert streak.failed(number, Failure("exception", f"ValueError: {'ab'[number % 2]}")) is None


def test_attempts_of_one_run_count_as_one_failure():
    streak = Streak(3)
    assert all(streak.failed(1, Failure("worker", "died")) is None for _ in range(9))
    assert streak.failed(2, Failure("worker", "died")) is None
    assert streak.failed(3, Failure("worker", "died")) is not None
