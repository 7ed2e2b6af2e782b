"""The first five minutes: each job once, on a small reaction and on real data that ship with scikit-learn.

    python examples/demo.py demo        # or: make demo

Two of the four help, one finds what was hidden on purpose, and one rightly changes nothing. The folder then holds a
page for each, and index.html with the answers.
"""

from __future__ import annotations

import html
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import steep
from steep.domain import Box
from steep.nn import improve
from steep.report import design_page, improvement_page, weighting_page

N_START, N_MORE, N_DESIGNS = 20, 60, 5
N_SWAPPED = 60
REACTION = {"u0": (0.0, 1.0), "η0": (0.0, 1.0), "t": (0.0, 10.0)}


def reaction(X: np.ndarray) -> np.ndarray:
    """Amounts at time t of two substances that use each other up: u' = η' = −0.45 u η, in closed form."""
    u, eta, t = X.T
    a = 0.45 * t * (u - eta)
    level = np.where(a == 0, 1.0, a)
    spent = 1 + 0.45 * t * eta * np.where(a == 0, 1.0, -np.expm1(-level) / level)
    return np.column_stack([u, eta * np.exp(-a)]) / spent[:, None]


def largest_error(X: np.ndarray) -> float:
    """Largest error, over fresh points, of a small network trained on runs at X."""
    box = Box(REACTION)
    network = MLPRegressor(hidden_layer_sizes=(32, 32), activation="tanh", solver="lbfgs", max_iter=400, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(box.unit(X), reaction(X))
    fresh = box.sobol(4096, random_state=999)
    return float(np.abs(network.predict(box.unit(fresh)) - reaction(fresh)).max())


def place_runs(page: Path) -> tuple[str, str, str]:
    """Train the same network on runs of a design and on Sobol points."""
    plans = [
        steep.design(reaction, REACTION, N_START + N_MORE, n_initial=N_START, random_state=seed)
        for seed in range(N_DESIGNS)
    ]
    design_page(page, plans[0], title="80 runs of a reaction")
    box = Box(REACTION)
    even = [box.sobol(N_START + N_MORE, random_state=100 + seed) for seed in range(N_DESIGNS)]
    ratio = np.array([largest_error(plan.X) / largest_error(X) for plan, X in zip(plans, even, strict=True)])
    return (
        "Where should I run my simulator?",
        f"A reaction with three inputs, {N_START + N_MORE} runs. The same small network learns from runs that steep "
        f"placed and from runs spread evenly (Sobol points), {N_DESIGNS} times.",
        f"With steep's runs the largest error is {np.exp(np.log(ratio).mean()):.2f} times that of evenly spread runs; "
        f"it is smaller in {(ratio < 1).sum()} of {N_DESIGNS} repeats.",
    )


def weight_samples(page: Path) -> tuple[str, str, str]:
    """Breast cancer and a logistic regression, which leave nothing to gain."""
    data = load_breast_cancer(as_frame=True)
    kinds = data.target.map(dict(enumerate(data.target_names)))
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model = steep.VarianceWeightedCV(logistic, scoring="accuracy", random_state=0).fit(data.data, kinds)
    weights = steep.sample_weights(data.data, kinds, weight_ratio=5)
    weighting_page(
        page, X=data.data, y=kinds, weights=weights, target="diagnosis", verdict=model.verdict_,
        title="Weights of 569 tumours",
    )  # fmt: skip
    return (
        "Which samples should count more?",
        "569 tumours, 30 measurements, a logistic regression scored by accuracy. Weights are kept only if they beat "
        "equal weights on data held out.",
        str(model.verdict_),
    )


def find_wrong_labels(page: Path) -> tuple[str, str, str]:
    """Digits, some of whose labels were swapped."""
    digits = load_digits()
    rng = np.random.default_rng(0)
    swapped = rng.choice(len(digits.target), N_SWAPPED, replace=False)
    labels = digits.target.copy()
    labels[swapped] = (labels[swapped] + rng.integers(1, 10, N_SWAPPED)) % 10
    found = steep.suspects(digits.data, labels, random_state=0)
    right = len(set(found.top(N_SWAPPED).index) & set(swapped.tolist()))
    found.page(page, images=digits.images, title="Digits whose label is probably wrong")
    return (
        "Which labels are wrong?",
        f"1,797 handwritten digits; {N_SWAPPED} labels were swapped before steep looked.",
        f"Of the {N_SWAPPED} labels that steep suspects most, {right} are swapped ones. {found.verdict}",
    )


def improve_network(page: Path) -> tuple[str, str, str]:
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
    improvement_page(page, result, title="A better head for a small network")
    before, after = (
        100 * np.mean(model(torch.from_numpy(X_test)).argmax(1).numpy() == y_test)
        for model in (network, result.network)
    )
    return (
        "Can the network I have do better?",
        f"A small network for the same digits that stopped early. On 400 digits that took no part in anything it reads "
        f"{before:.1f} % correctly before and {after:.1f} % after.",
        str(result.verdict),
    )


JOBS: dict[str, Callable[[Path], tuple[str, str, str]]] = {
    "design.html": place_runs,
    "weights.html": weight_samples,
    "suspects.html": find_wrong_labels,
    "improvement.html": improve_network,
}


def main(folder: Path) -> Path:
    """Do each job once, print the answers, and write the pages; return the first one."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = []
    for number, (name, job) in enumerate(JOBS.items(), start=1):
        question, text, answer = job(folder / name)
        print(f"{number}. {question}\n   {text}\n   → {answer}\n")
        sections.append(
            f"<h2>{html.escape(question)}</h2><p>{html.escape(text)}</p><p><b>{html.escape(answer)}</b></p>"
            f'<p><a href="{name}">Look closer: {name}</a></p>'
        )
    page = folder / "index.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><title>steep</title>{''.join(sections)}\n", encoding="utf-8")
    print("Open this page in a browser:")
    print(page)
    return page


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
