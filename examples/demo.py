"""The first five minutes: each question once, on small problems and on data that ship with scikit-learn.

    python examples/demo.py demo        # or: make demo

One page, index.html, holds the answers and the pictures; next to it is a full report of each question.
"""

from __future__ import annotations

import base64
import html
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.interpolate import RBFInterpolator
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import steep
from steep.nn import improve
from steep.report import design_page, weighting_page

BLUE, RED = "#1f6fb4", "#d1495b"
N_RUNS, N_REPEATS, N_SWAPPED = 24, 5, 60
MACHINE = {"load": (0.0, 1.0)}


class Answer(NamedTuple):
    """What the page says about one question."""

    question: str
    setting: str
    answers: list[str]  # one sentence each, as one would say them in a meeting
    evidence: list[str]
    figure: Figure | None = None


def response(X: np.ndarray) -> np.ndarray:
    """A machine that switches on near 0.3 and half off near 0.75: flat almost everywhere, steep in two places."""
    x = X[:, 0]
    return np.tanh(40 * (x - 0.3)) - 0.6 * np.tanh(25 * (x - 0.75)) + 0.2 * x


def fast_model(runs: np.ndarray, at: np.ndarray) -> np.ndarray:
    """A cubic interpolant through the runs."""
    return RBFInterpolator(runs, response(runs), kernel="cubic")(at)


def place_runs(page: Path) -> Answer:
    """Compare the runs of a design with evenly spread ones."""
    box, fresh = steep.Box(MACHINE), np.linspace(0, 1, 2001)[:, None]
    plans = [steep.design(response, MACHINE, N_RUNS, random_state=seed) for seed in range(N_REPEATS)]
    ways = {
        "runs spread evenly (Sobol)": [box.sobol(N_RUNS, random_state=100 + seed) for seed in range(N_REPEATS)],
        "runs placed by steep": [plan.X for plan in plans],
    }
    even, placed = (
        np.array([np.abs(fast_model(X, fresh) - response(fresh)).max() for X in runs]) for runs in ways.values()
    )
    design_page(page, plans[0], title=f"{N_RUNS} runs of a machine")

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    *panels, last = figure.subplots(1, 3, width_ratios=(4, 4, 3))
    for ax, (name, runs), colour in zip(panels, ways.items(), (BLUE, RED), strict=True):
        truth, model = response(fresh), fast_model(runs[0], fresh)
        ax.plot(fresh[:, 0], truth, color="#8a8a8a", lw=4, alpha=0.4, label="simulator")
        ax.plot(fresh[:, 0], model, color=colour, lw=1.2, label="fast model")
        ax.fill_between(fresh[:, 0], truth, model, color=colour, alpha=0.35)
        ax.plot(runs[0][:, 0], response(runs[0]), "o", color=colour, ms=4)
        ax.vlines(runs[0][:, 0], -1.0, -0.9, color=colour)
        ax.set(title=f"{N_RUNS} {name}", xlabel="load", ylim=(-1, 2.3))
        ax.legend(loc="upper left", fontsize=8)
    for i, (errors, colour) in enumerate(((even, BLUE), (placed, RED))):
        last.bar(i, errors.mean(), color=colour, alpha=0.35, width=0.6)
        last.scatter(np.full(N_REPEATS, i), errors, color=colour, s=16)
    last.set(title=f"largest error, {N_REPEATS} repeats", xticks=[0, 1], xticklabels=["even", "steep"])
    saved = 1 - np.exp(np.log(placed / even).mean())
    return Answer(
        "Where should I run my simulator?",
        f"A simulator with one input that is steep in two places, {N_RUNS} runs, and a fast model fitted to them.",
        [
            f"With the same number of runs the largest error is {saved:.0%} lower than with evenly spread runs; it is "
            f"lower in {(placed < even).sum()} of {N_REPEATS} repeats."
        ],
        [f"{plans[0]}.", str(plans[0].hedge)],
        figure,
    )


def weight_samples(page: Path) -> Answer:
    """One case in which weights help, and one in which equal weights are kept."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 3))
    y = np.exp(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=len(X))
    train, fresh = slice(0, 1500), slice(1500, None)
    curved = steep.VarianceWeightedCV(Ridge(), scoring="max_error", random_state=0).fit(X[train], y[train])
    equal = Ridge().fit(X[train], y[train])
    before, after = (float(np.abs(model.predict(X[fresh]) - y[fresh]).max()) for model in (equal, curved))

    data = load_breast_cancer(as_frame=True)
    kinds = data.target.map(dict(enumerate(data.target_names)))
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    tumours = steep.VarianceWeightedCV(logistic, scoring="accuracy", random_state=0).fit(data.data, kinds)
    weighting_page(
        page, X=data.data, y=kinds, weights=steep.sample_weights(data.data, kinds), target="diagnosis",
        verdict=tumours.verdict_, title="Weights of 569 tumours",
    )  # fmt: skip
    return Answer(
        "Which training samples should count more?",
        "A straight-line model of a curved process, scored by its largest error; and a logistic regression of 569 "
        "tumours, scored by accuracy.",
        [f"It helps the straight line: its largest error on fresh data falls from {before:.2g} to {after:.2g}.",
         "It does not help the tumours: no weighting is better than equal weights, so they are kept."],
        [str(curved.verdict_), str(tumours.verdict_)],
    )  # fmt: skip


def find_wrong_labels(page: Path) -> Answer:
    """Digits, some of whose labels were swapped."""
    digits = load_digits()
    rng = np.random.default_rng(0)
    swapped = rng.choice(len(digits.target), N_SWAPPED, replace=False)
    labels = digits.target.copy()
    labels[swapped] = (labels[swapped] + rng.integers(1, 10, N_SWAPPED)) % 10
    found = steep.suspects(digits.data, labels, random_state=0)
    found.page(page, images=digits.images, title="Digits whose label is probably wrong")
    first = found.top(N_SWAPPED)
    right = len(set(first.index) & set(swapped.tolist()))
    figure = Figure(figsize=(9, 1.6), layout="constrained")
    for ax, (row, suspect) in zip(figure.subplots(1, 10), first.head(10).iterrows(), strict=True):
        ax.imshow(digits.images[row], cmap="gray_r")
        ax.set_title(f"{suspect['label']} → {suspect['suggested']}")
        ax.axis("off")
    return Answer(
        "Which labels are probably wrong?",
        f"1,797 handwritten digits; {N_SWAPPED} labels were swapped before steep looked.",
        [f"Check {N_SWAPPED} labels instead of 1,797: {right} of the first {N_SWAPPED} rows hold a swapped label."],
        [str(found.verdict)],
        figure,
    )


def improve_network() -> Answer:
    """A network that stopped early, on digits."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X.astype(np.float32) / 16, y, test_size=400, random_state=0)
    X, X_val, y, y_val = train_test_split(X, y, test_size=500, random_state=0)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(12):
        loss = torch.nn.functional.cross_entropy(network(torch.from_numpy(X)), torch.from_numpy(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    result = improve(network, (X, y), (X_val, y_val))

    def correct(model: Any) -> float:
        return float((model(torch.from_numpy(X_test)).argmax(1).numpy() == y_test).mean())

    return Answer(
        "Can the network I already trained do better?",
        "A small network for the same digits, whose training stopped early.",
        [f"Yes: of 400 digits that took no part in anything, the network reads {correct(result.network):.1%} correctly "
         f"instead of {correct(network):.1%}. Only its last layer changed."],
        [str(result.verdict)],
        result.plot().figure,
    )  # fmt: skip


JOBS: dict[str, Callable[[Path], Answer]] = {
    "design.html": place_runs,
    "weights.html": weight_samples,
    "suspects.html": find_wrong_labels,
}
STYLE = """:root { color-scheme: light dark } body { font: 17px/1.5 system-ui, sans-serif; max-width: 52rem;
margin: 2rem auto; padding: 0 1rem } h2 { margin-top: 3rem } .answer { font-size: 1.15em; font-weight: 600 }
.evidence { opacity: .75; font-size: .9em } img { max-width: 100%; background: #fff; border-radius: 4px }"""


def section(answer: Answer, link: str | None) -> str:
    """One question of the page; all text is escaped."""
    picture = ""
    if answer.figure is not None:
        stream = io.BytesIO()
        answer.figure.savefig(stream, format="png", dpi=130)
        picture = f'<img alt="" src="data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}">'
    answers = "".join(f'<p class="answer">{html.escape(line)}</p>' for line in answer.answers)
    evidence = "".join(f"<li>{html.escape(line)}</li>" for line in answer.evidence)
    report = "" if link is None else f'<p><a href="{link}">The full report</a></p>'
    return (
        f"<h2>{html.escape(answer.question)}</h2><p>{html.escape(answer.setting)}</p>{answers}{picture}"
        f'<details class="evidence"><summary>The evidence</summary><ul>{evidence}</ul></details>{report}'
    )


def answers(folder: Path) -> Iterator[tuple[str | None, Answer]]:
    """Each answer, with the name of its report; an improvement has none."""
    for name, job in JOBS.items():
        yield name, job(folder / name)
    yield None, improve_network()


def main(folder: Path) -> Path:
    """Answer each question once, print the answers, and write the pages; return the first one."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = []
    for number, (link, answer) in enumerate(answers(folder), start=1):
        print(f"{number}. {answer.question}\n   {answer.setting}")
        print("".join(f"   → {line}\n" for line in answer.answers))
        sections.append(section(answer, link))
    page = folder / "index.html"
    page.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>steep in five minutes</title><style>{STYLE}</style><h1>steep in five minutes</h1>"
        f"{''.join(sections)}\n",
        encoding="utf-8",
    )
    print("Open this page in a browser:")
    print(page)
    return page


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
