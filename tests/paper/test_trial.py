"""Trials: every kind of job is started, stopped in time, and told by its progress."""

import json
import multiprocessing
import time

import pytest

from steep.exceptions import SteepError, StorageError
from steep.paper import trial
from steep.paper.data import StandIns
from steep.paper.jobs import Context, Job
from steep.paper.registry import EXPERIMENTS, module
from steep.paper.report import best_scale, trials_section
from steep.paper.trial import Kind, Sight, extrapolate, kinds, outcome, run_trials, trials_of


def quietly(names, folder, **options):
    options = {"seconds": 2, "results": folder / "results", "cache": folder / "cache"} | options
    return run_trials(names, say=lambda text: None, **options)


def test_kinds_stand_for_every_line_of_every_table():
    for name in EXPERIMENTS:
        jobs, found = module(name).jobs("paper"), kinds(name, "paper")
        parts = {(kind.number, kind.n_jobs) for kind in found}
        assert sum(n_jobs for _, n_jobs in parts) == len(jobs)
        arms = {(kind.job.experiment, arm) for kind in found for arm, _ in kind.job.lines}
        assert arms == {(job.experiment, arm) for job in jobs for arm, _ in job.lines}
        assert len({kind.key for kind in found}) == len(found)


def test_the_time_left_is_read_off_the_stage_that_was_reached():
    begun = [Sight(1.0, 1, 0.0), Sight(5.0, 1, 0.9), Sight(6.0, 2, 0.0), Sight(8.0, 2, 0.1)]
    assert extrapolate(begun, finished=False) == pytest.approx(6 + 2 / 0.1)
    assert extrapolate(begun, finished=True) == 8
    assert extrapolate([Sight(1.0), Sight(2.0)], finished=False) is None


def test_all_jobs_of_a_kind_count():
    job = Job("e", "n", (("a", 0),), lambda context: {}, {})
    found = outcome(Kind("table9", 0, job, 7, ""), [Sight(0.0, 1, 0.0), Sight(36.0, 1, 0.1)], finished=False)
    assert found["hours_per_job"] == pytest.approx(0.1)
    assert found["hours"] == pytest.approx(0.7)
    assert found["share"] == 0.1


def test_a_scale_that_was_only_tried_has_no_page(tmp_path):
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / trial.FILE).write_text("")
    with pytest.raises(StorageError, match="holds no lines"):
        best_scale(tmp_path)


@pytest.mark.parametrize("options", [{"seconds": 0}, {"seconds": None}, {"seconds": "x"}, {"scale": "huge"},
                                     {"seconds": float("nan")}, {"names": ["table9"]}])  # fmt: skip
def test_odd_arguments_are_refused_in_one_line(tmp_path, options):
    with pytest.raises(SteepError) as caught:
        quietly(options.pop("names", ["lemma1"]), tmp_path, **options)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize("change", [
    {"experiment": "other"}, {"settings": {"x": 2}}, {"result": None},
])  # fmt: skip
def test_a_foreign_line_is_refused_and_kept(tmp_path, change):
    kind = kinds("lemma1", "paper")[0]
    records = trials_of(tmp_path / "results", "paper")
    sights = [Sight(0.0), Sight(1.0)]
    records.add(
        *kind.key, 9, result=outcome(kind, sights, finished=True), settings=kind.job.settings, seconds=1.0
    )
    assert "to the end" in trials_section(tmp_path / "results")
    line = json.loads(records.path.read_text()) | change
    records.path.write_text(json.dumps(line) + "\n")
    for call in (lambda: quietly(["lemma1"], tmp_path), lambda: trials_section(tmp_path / "results")):
        with pytest.raises(StorageError, match="entry 1 was recorded with different settings") as caught:
            call()
        assert "\n" not in str(caught.value)
    assert json.loads(records.path.read_text()) == line


@pytest.mark.slow
def test_a_trial_writes_one_line_a_kind_and_nothing_else(tmp_path):
    assert quietly(["lemma1", "figure3"], tmp_path) == 3 + 1
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["trials.jsonl"]
    lines = {(line["experiment"], line["arm"]): line for line in trials_of(tmp_path / "results", "paper")}
    assert set(lines) == {kind.key for name in ("lemma1", "figure3") for kind in kinds(name, "paper")}
    finished = {key: line["result"]["finished"] for key, line in lines.items()}
    assert [key[0] for key, ended in finished.items() if not ended] == ["figure3, tbs"]
    assert quietly(["lemma1"], tmp_path, seconds=3) == 0  # ended before: nothing more to learn
    assert quietly(["figure3"], tmp_path) == 0
    assert "| figure3 |" in trials_section(tmp_path / "results")


@pytest.mark.slow
def test_a_trial_ends_in_time_and_leaves_no_process(tmp_path):
    (kind,) = [
        kind for kind in kinds("table2", "paper") if kind.key == ("table2, bateman, inputs scaled", "uniform")
    ]
    began, before = time.monotonic(), multiprocessing.active_children()
    _, finished = trial._watch(kind, "paper", 2, None, tmp_path)
    assert not finished
    assert time.monotonic() - began < trial._START_SECONDS
    assert set(multiprocessing.active_children()) <= set(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table2", "table4", "table6", "table7"])
def test_every_part_of_a_job_can_be_started_alone(tmp_path, name):
    found = [kind for kind in kinds(name, "smoke") if kind.part]
    assert found
    for kind in found:
        kind.job.run(Context(StandIns(), tmp_path, progress=False, only=kind.part))


def test_only_the_training_is_trained_when_asked_for(tmp_path):
    (training, heads) = [kind for kind in kinds("table4", "smoke") if kind.job.experiment == "mnist"]
    heads.job.run(Context(StandIns(), tmp_path, progress=False, only=heads.part))
    assert not list(tmp_path.iterdir())  # no checkpoint: the network is taken untrained
    assert training.job.run(Context(StandIns(), tmp_path, progress=False, only=training.part)) == {}
    assert list(tmp_path.glob("lenet5*.safetensors"))


@pytest.mark.slow
def test_missing_data_are_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setenv("STEEP_DATA", str(tmp_path))
    with pytest.raises(StorageError, match=r"cls_features.* is not in .*; fetch it") as caught:
        quietly(["table5"], tmp_path)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("*.jsonl"))
