"""The first five minutes: each job once, on a small reaction and on real data that ship with scikit-learn.

Two of the four help, one finds what was hidden on purpose, and one rightly does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from steep._validation import FloatArray

Print = Callable[[str], object]

PAGE = "index.html"
_N_START, _N_MORE, _N_DESIGNS = 20, 60, 5
_N_SWAPPED = 60
_REACTION_BOUNDS = {"u0": (0.0, 1.0), "η0": (0.0, 1.0), "t": (0.0, 10.0)}


def run_demo(output: str | Path = "demo", *, say: Print = print) -> Path:
    """Do each job once and write the page.

    Parameters
    ----------
    output : path
        Folder, made where it is missing.
    say : callable
        Takes what is to be told, line by line; the last line is the path of the page.

    Returns
    -------
    Path
        The page; pages with more lie beside it.
    """
    from steep.report.overview import overview_page

    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    answers = []
    for number, job in enumerate((_design, _weigh, _suspects, _improve), start=1):
        answers.append(job(folder))
        say(f"{number}. {answers[-1].question}\n   {answers[-1].told}\n   → {answers[-1].verdict}\n")
    page = overview_page(
        folder / PAGE,
        answers,
        title="Four questions to steep",
        lead="Each job once, on a small chemical reaction and on real data that ship with scikit-learn.",
        kind="demo",
    )
    say("Open this page in a browser:")
    say(str(page))
    return page


def _reaction(X: FloatArray) -> FloatArray:
    """Amounts at time t of two substances that use each other up: u' = η' = −0.45 u η, in closed form."""
    u, eta, t = X.T
    a = 0.45 * t * (u - eta)
    level = np.where(a == 0, 1.0, a)
    spent = 1 + 0.45 * t * eta * np.where(a == 0, 1.0, -np.expm1(-level) / level)
    return np.asarray(np.column_stack([u, eta * np.exp(-a)]) / spent[:, None])


def _design(folder: Path) -> Any:
    """Runs of a reaction, by a design and by Sobol points, and the error of networks trained on them."""
    from steep.report import design_page
    from steep.report.overview import Answer
    from steep.sampling import design

    plans = [
        design(_reaction, _REACTION_BOUNDS, _N_START + _N_MORE, n_initial=_N_START, random_state=seed)
        for seed in range(_N_DESIGNS)
    ]
    design_page(folder / "design.html", plans[0], title="80 runs of a reaction")
    ratio = _largest_errors([plan.X for plan in plans]) / _largest_errors(_sobol_points())
    better = int((ratio < 1).sum())
    return Answer(
        "Where should I run my simulator?",
        f"A reaction with three inputs, {_N_START + _N_MORE} runs. The same small network learns from runs that steep "
        f"placed and from runs spread evenly (Sobol points), {_N_DESIGNS} times.",
        f"With steep's runs the largest error is {np.exp(np.log(ratio).mean()):.2f} times that of evenly spread runs; "
        f"it is smaller in {better} of {_N_DESIGNS} repeats.",
        figure=_figure(plans[0].plot()),
        caption="Where the runs lie: circles are the start, triangles were placed where the results differ most.",
        page="design.html",
        helps=better == _N_DESIGNS,
    )


def _sobol_points() -> list[FloatArray]:
    from steep.domain import Box

    box = Box(_REACTION_BOUNDS)
    return [box.sobol(_N_START + _N_MORE, random_state=100 + seed) for seed in range(_N_DESIGNS)]


def _largest_errors(designs: list[FloatArray]) -> FloatArray:
    """Largest error of a network of two layers for each design, over fresh points."""
    import torch

    from steep.domain import Box

    box = Box(_REACTION_BOUNDS)
    fresh = box.sobol(4096, random_state=999)
    truth = _reaction(fresh)
    largest = []
    for points in designs:
        network = _network(box.unit(points), _reaction(points), 32, 32, epochs=1500, learning_rate=3e-3)
        predicted = network(torch.tensor(box.unit(fresh), dtype=torch.float32)).detach().numpy()
        largest.append(np.abs(predicted - truth).max())
    return np.array(largest)


def _network(X: FloatArray, y: Any, *hidden: int, epochs: int, learning_rate: float) -> Any:
    """A tanh network trained by Adam, full batches: cross-entropy for class numbers, else squared error."""
    import torch
    from torch import nn

    targets = torch.tensor(y) if y.dtype.kind == "i" else torch.tensor(y, dtype=torch.float32)
    loss = nn.CrossEntropyLoss() if y.dtype.kind == "i" else nn.MSELoss()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = [X.shape[1], *hidden, int(y.max()) + 1 if y.dtype.kind == "i" else y.shape[1]]
        layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.Tanh())]
    network, inputs = nn.Sequential(*layers[:-1]), torch.tensor(X, dtype=torch.float32)
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss(network(inputs), targets).backward()
        optimizer.step()
    return network


def _weigh(folder: Path) -> Any:
    """Breast cancer and a logistic regression, which leave nothing to gain."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from steep.measures.variance import neighbor_variance
    from steep.plotting import plot_weights
    from steep.report import weighting_page
    from steep.report.overview import Answer
    from steep.weighting import VarianceWeightedCV, sample_weights

    data = load_breast_cancer(as_frame=True)
    names = data.target.map(dict(enumerate(data.target_names)))
    model = VarianceWeightedCV(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), scoring="accuracy", random_state=0
    ).fit(data.data, names)
    weights = sample_weights(data.data, names, weight_ratio=5)
    scaled = StandardScaler().fit_transform(data.data)
    weighting_page(
        folder / "weights.html", X=data.data, y=names, weights=weights, table=data.data, target="diagnosis",
        variation=neighbor_variance(scaled, names), verdict=model.verdict_, title="Weights of 569 tumours",
    )  # fmt: skip
    return Answer(
        "Which samples should count more?",
        "569 tumours, 30 measurements, a logistic regression scored by accuracy. Weights are kept only if they beat "
        "equal weights on data held out.",
        model.verdict_,
        figure=_figure(plot_weights(scaled, weights)),
        caption="Where weights would go: the tumours, flattened to two dimensions, heavy ones where benign and "
        "malignant lie side by side. They were tried, and not kept.",
        page="weights.html",
    )


def _suspects(folder: Path) -> Any:
    """Digits, some of whose labels were swapped."""
    from sklearn.datasets import load_digits

    from steep._suspects import suspects
    from steep.report import suspects_page
    from steep.report.overview import Answer

    digits = load_digits()
    rng = np.random.default_rng(0)
    swapped = rng.choice(len(digits.target), _N_SWAPPED, replace=False)
    labels = digits.target.copy()
    labels[swapped] = (labels[swapped] + rng.integers(1, 10, _N_SWAPPED)) % 10
    found = suspects(digits.data, labels, random_state=0)
    first = found.top(_N_SWAPPED).index
    right = len(set(first) & set(swapped.tolist()))
    suspects_page(
        folder / "suspects.html", found, X=digits.data, images=digits.images,
        title="Digits whose label is probably wrong",
    )  # fmt: skip
    return Answer(
        "Which labels are wrong?",
        f"1,797 handwritten digits; {_N_SWAPPED} labels were swapped before steep looked.",
        f"Of the {_N_SWAPPED} labels that steep suspects most, {right} are swapped ones. {found.verdict}",
        figure=_draw_digits(digits.images, labels, found),
        caption="The twelve most suspect digits, with their label and what steep suggests instead.",
        page="suspects.html",
        helps=True if right > _N_SWAPPED / 2 else None,
        heading="Look at these first",
    )


def _figure(axes: Any) -> Any:
    """The figure that one panel or an array of them belongs to."""
    return np.ravel(axes)[0].figure


def _draw_digits(images: FloatArray, labels: Any, found: Any) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.1), layout="constrained")
    top = found.top(12)
    for ax, row, suggested in zip(figure.subplots(1, 12), top.index, top["suggested"], strict=True):
        ax.imshow(images[row], cmap="gray_r")
        ax.set_title(f"{labels[row]} → {suggested}", fontsize=10)
        ax.axis("off")
    return figure


def _improve(folder: Path) -> Any:
    """A network that stopped early, on digits."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from steep import nn
    from steep.report import improvement_page
    from steep.report.overview import Answer

    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X.astype(np.float32) / 16, y, test_size=400, random_state=0)
    X, X_val, y, y_val = train_test_split(X, y, test_size=500, random_state=0)
    network = _network(X, y, 64, epochs=12, learning_rate=0.01)
    result = nn.improve(network, (X, y), (X_val, y_val), progress=False)
    improvement_page(
        folder / "improvement.html", result, y=y, images=16 * X.reshape(-1, 8, 8),
        title="A better head for a small network",
    )  # fmt: skip
    inputs = next(network.parameters()).new_tensor(X_test)
    before, after = (100 * np.mean(model(inputs).argmax(1).numpy() == y_test) for model in (network, result.network))
    return Answer(
        "Can the network I have do better?",
        f"A small network for the same digits that stopped early. On 400 digits that took no part in anything it reads "
        f"{before:.1f} % right before and {after:.1f} % after.",
        result.verdict,
        figure=_figure(result.plot()),
        caption="Gain of each kind of head on the held-out digits, with its 95 % interval.",
        page="improvement.html",
    )
