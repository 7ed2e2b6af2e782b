"""Runs resume, restore lost lines exactly, share work, reject foreign lines, and agree with their page."""

import json
import multiprocessing
import os
import re
import signal
import time
from pathlib import Path

import pytest

from reproduction import reproduce, runner
from reproduction.jobs import ALIASES, EXPERIMENTS, Job, module
from reproduction.records import turn
from reproduction.report import FOLDER, collect, pages, write_report
from reproduction.summary import Lines
from reproduction.verdicts import NOT_CLAIMED, NOT_TESTED
from steep.exceptions import InputError, SteepError, StorageError

ROOT = Path(__file__).parents[2]
QUICK = ["lemma1", "figure1", "figure4", "figure5"]


def lines_of(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def quietly(names, folder, **options):
    return reproduce(names, results=folder / "results", cache=folder / "cache", say=lambda text: None, **options)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Every table and figure at smoke scale, once."""
    folder = tmp_path_factory.mktemp("smoke")
    quietly(["all"], folder)
    return folder


@pytest.mark.slow
def test_every_experiment_gives_all_its_lines(smoke):
    for name in EXPERIMENTS:
        wanted = {(job.experiment, *line) for job in module(name).jobs("smoke") for line in job.lines}
        found = [
            (line["experiment"], line["arm"], line["seed"])
            for line in lines_of(smoke / "results/smoke" / f"{name}.jsonl")
        ]
        assert sorted(found) == sorted(wanted), name


@pytest.mark.slow
def test_a_finished_run_has_nothing_left(smoke):
    assert quietly(["all"], smoke) == 0


@pytest.mark.slow
def test_every_line_says_with_what_it_was_run(smoke):
    for path in (smoke / "results/smoke").glob("*.jsonl"):
        for line in lines_of(path):
            assert line["cpu_seconds"] >= 0
            assert "numpy" in line["versions"]
            assert line["settings"]


@pytest.mark.slow
def test_stand_ins_are_labelled(smoke):
    for name in ("table4", "table5", "table6", "table7"):
        for line in lines_of(smoke / "results/smoke" / f"{name}.jsonl"):
            assert line["settings"]["data"].startswith("stand-in")


SLOWER = [pytest.param(name, marks=pytest.mark.slow) for name in ("table3", "table4", "table5", "table6", "table7")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table1", "table2", "open", *SLOWER])
def test_a_deleted_line_comes_back_with_the_same_value(smoke, tmp_path, name):
    path = smoke / "results/smoke" / f"{name}.jsonl"
    whole = lines_of(path)
    lost = whole[len(whole) // 2]
    copy = tmp_path / "results/smoke" / path.name
    copy.parent.mkdir(parents=True)
    copy.write_text("".join(json.dumps(line) + "\n" for line in whole if line != lost))
    assert quietly([name], tmp_path) == 1  # its own empty cache: networks are trained again
    restored = lines_of(copy)[-1]
    for part in ("experiment", "arm", "seed", "settings", "result"):
        assert restored[part] == lost[part]


@pytest.mark.slow
def test_the_pages_and_pictures_are_drawn_from_the_lines(smoke):
    lines = collect(smoke / "results", "smoke")
    texts = pages(smoke / "results", "laptop", lines)
    for name in EXPERIMENTS:
        assert module(name).TITLE in texts[f"{FOLDER}/{name}.md"]
        for figure in module(name).summarize(lines[name]).figures:
            assert f"{figure.name}.png" in texts[f"{FOLDER}/{name}.md"]
            assert figure.draw().axes
    changed = [dict(line) for line in lines["table1"].all]
    changed[0]["result"] = {**changed[0]["result"], "mse": changed[0]["result"]["mse"] + 1.0}
    assert pages(smoke / "results", "laptop", {**lines, "table1": Lines(changed, "smoke")}) != texts


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_page_works_with_any_part_of_the_lines(smoke, name):
    whole = list(lines_of(smoke / "results/smoke" / f"{name}.jsonl"))
    for kept in ([], whole[:1], whole[::2], whole[1::3]):
        section = module(name).summarize(Lines(kept, "smoke"))
        assert section.claims
        if not kept:
            assert {claim.verdict for claim in section.claims} <= {NOT_TESTED, NOT_CLAIMED}


def test_committed_pages_and_lines_agree():
    for name, text in pages(ROOT / "results", "laptop").items():
        assert (ROOT / "docs" / name).read_text() == text, "run python -m reproduction --report --scale laptop"


def test_the_readme_quotes_the_counts_of_the_page():
    page = (ROOT / "docs/reproduction.md").read_text()
    n, holds, protocol, fails = re.search(
        r"Of (\d+) claims: (\d+) holds, (\d+) holds under[^,]*, (\d+) does not", page
    ).groups()
    quoted = f"of {n}, {holds} hold, {protocol} hold under the paper's protocol only, {fails} do not"
    assert quoted in " ".join((ROOT / "README.md").read_text().split())


def test_smoke_lines_give_no_page_and_no_verdict(tmp_path):
    quietly(["lemma1"], tmp_path)
    with pytest.raises(StorageError, match="give no verdicts"):
        write_report(tmp_path / "results", tmp_path / "docs")
    assert not (tmp_path / "docs").exists()


def test_committed_lines_are_those_of_the_experiments():
    for name, own in collect(ROOT / "results", "laptop").items():
        if own:
            runner.check_lines(runner.records_of(ROOT / "results", "laptop", name), module(name).jobs("laptop"))


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(
        InputError, match=r"'table9' is not a table or figure; expected 'all' or some of .*table1"
    ) as caught:
        quietly(["table9"], tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [
    {"names": []}, {"names": ""}, {"names": ["table1", "tabel2"]}, {"scale": "huge"}, {"scale": None},
    {"cache": __file__}, {"results": __file__}, {"device": "tpu"}, {"device": "mps"}, {"device": None},
])  # fmt: skip
def test_odd_arguments_are_refused_in_one_line(tmp_path, options):
    given = {"names": ["lemma1"], "results": tmp_path, "cache": tmp_path} | options
    with pytest.raises(SteepError) as caught:
        reproduce(given.pop("names"), **given)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_report_without_lines_is_refused(tmp_path):
    with pytest.raises(StorageError, match="holds no lines"):
        write_report(tmp_path, tmp_path)


def test_aliases_are_known():
    for alias, name in ALIASES.items():
        assert runner.resolve([alias]) == [name]


def test_a_missing_data_set_is_one_clear_line_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("STEEP_DATA", raising=False)
    monkeypatch.setattr("reproduction.data.SOURCES", {})
    with pytest.raises(StorageError, match="fetch it"):
        quietly(["figure5"], tmp_path, scale="laptop", data=tmp_path)
    assert not list(tmp_path.rglob("*.jsonl"))


def write_line(folder, text):
    path = folder / "results/smoke/lemma1.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(("text", "says"), [
    ("{broken}\n", "not a record"),
    ('{"experiment": "other", "arm": "x²", "seed": 0, "result": {}, "settings": {}}\n', "does not belong to this"),
    ('{"experiment": "lemma1", "arm": "x²", "seed": 0, "result": {}, "settings": {"x": 2}}\n', "other settings"),
    ('{"experiment": "lemma1", "arm": "x²", "seed": 0, "settings": {}}\n', "does not belong to this"),
    ('[1, 2]\n', "not a record"),
    ('{"experiment": "lemma1", "arm": ["x"], "seed": 0, "result": {}}\n', "does not belong to this"),
])  # fmt: skip
def test_a_foreign_or_damaged_line_is_refused_and_kept(tmp_path, text, says):
    path = write_line(tmp_path, text)
    with pytest.raises(SteepError, match=says) as caught:
        quietly(["lemma1"], tmp_path)
    assert "\n" not in str(caught.value)
    assert path.read_text() == text


@pytest.mark.parametrize("text", [
    '{"experiment": "lemma1", "arm": "x²", "seed": 0}\n',
    '{"experiment": "other", "arm": "x²", "seed": 0, "result": {}, "settings": {}}\n',
])  # fmt: skip
def test_foreign_lines_are_not_collected(tmp_path, text):
    path = write_line(tmp_path, text)
    with pytest.raises(StorageError, match="does not belong to this experiment") as caught:
        collect(tmp_path / "results", "smoke")
    assert "\n" not in str(caught.value)
    assert path.read_text() == text


def test_a_line_cut_off_by_a_crash_is_run_again(tmp_path):
    quietly(["lemma1"], tmp_path)
    path = tmp_path / "results/smoke/lemma1.jsonl"
    path.write_text(path.read_text()[:-40])
    assert quietly(["lemma1"], tmp_path) == 1
    assert quietly(["lemma1"], tmp_path) == 0


def slow_jobs(scale):
    def run(seed, context):
        time.sleep(0.2)
        return {("arm", seed): {"value": seed, "process": os.getpid()}}

    return [
        Job("slow", str(seed), (("arm", seed),), lambda context, seed=seed: run(seed, context), {"n": 12})
        for seed in range(12)
    ]


def run_slow(folder):
    module("lemma1").jobs = slow_jobs
    quietly(["lemma1"], folder)


def test_processes_share_the_work_without_doing_any_twice(tmp_path):
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=run_slow, args=(tmp_path,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    lines = lines_of(tmp_path / "results/smoke/lemma1.jsonl")
    assert sorted(line["seed"] for line in lines) == list(range(12))
    assert len({line["result"]["process"] for line in lines}) == 2


def test_a_killed_run_resumes(tmp_path):
    fork = multiprocessing.get_context("fork")
    worker = fork.Process(target=run_slow, args=(tmp_path,))
    worker.start()
    path, end = tmp_path / "results/smoke/lemma1.jsonl", time.monotonic() + 60
    while not (path.exists() and len(path.read_text().splitlines()) >= 2):
        assert time.monotonic() < end
        time.sleep(0.02)
    os.kill(worker.pid, signal.SIGKILL)
    worker.join(60)
    before = lines_of(path)
    again = fork.Process(target=run_slow, args=(tmp_path,))
    again.start()
    again.join(60)
    lines = lines_of(path)
    assert lines[: len(before)] == before
    assert sorted(line["seed"] for line in lines) == list(range(12))


def test_a_lock_is_free_after_it_was_held(tmp_path):
    with turn(tmp_path, "a") as first, turn(tmp_path, "b") as other:
        assert first
        assert other
    with turn(tmp_path, "a") as again:
        assert again


def test_paper_scale_has_the_counts_of_the_paper():
    counts = {name: {} for name in EXPERIMENTS}
    for name in EXPERIMENTS:
        for job in module(name).jobs("paper"):
            for arm, _ in job.lines:
                counts[name][job.experiment, arm] = counts[name].get((job.experiment, arm), 0) + 1
    assert counts["table1"]["runge, inputs as in the paper", "TBS"] == 40
    assert counts["table2"]["bateman, inputs as in the paper", "TBS"] == 50
    assert counts["table3"]["double_moon", "VBSW"] == 50
    assert counts["table4"]["mnist", "VBSW"] == 40
    assert counts["table4"]["cifar10", "VBSW"] == 50
    assert counts["table5"]["RTE, tinybert-4l-312d-ner", "VBSW"] == 50
    assert counts["table7"]["cifar10", "TCL, VBSW"] == 60


def test_all_jobs_have_different_names_and_lines():
    for name in EXPERIMENTS:
        for scale in ("smoke", "laptop", "paper"):
            jobs = module(name).jobs(scale)
            assert len({(job.experiment, job.name) for job in jobs}) == len(jobs)
            lines = [(job.experiment, *line) for job in jobs for line in job.lines]
            assert len(set(lines)) == len(lines)
