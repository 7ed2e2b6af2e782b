"""The first five minutes: each job once, on a function and on data that ship with scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from steep.cli.options import Debug, Json
from steep.cli.printing import finish

Print = Callable[[str], object]


def demo_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pictures.")] = Path("demo"),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run each job once and write its picture."""
    said: list[str] = []
    pictures = run_demo(output, say=said.append if as_json else print)
    finish({"pictures": pictures, "said": said}, [], as_json=as_json)


def run_demo(output: str | Path = "demo", *, say: Print = print) -> list[Path]:
    """Run each job once and write its picture to ``output``.

    Returns
    -------
    list of Path
        The pictures written.
    """
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [_demo_design(folder, say), _demo_weights(folder, say)]
    _demo_improve(say)
    say("\nPictures:")
    for path in pictures:
        say(f"  {path}")
    return pictures


def _demo_design(folder: Path, say: Print) -> Path:
    import numpy as np

    from steep.paper.problems import RUNGE
    from steep.plotting import plot_design
    from steep.sampling import design

    say("1. design: choose where to run a function (Runge's), 8 start points and 24 where it varies")
    plan = design(
        RUNGE.function,
        RUNGE.bounds,
        n_initial=8,
        n_samples=24,
        initial="grid",
        variant="paper",
        random_state=0,
    )
    near = np.mean(np.abs(plan.X[~plan.is_initial, 0] - 0.5) < 0.25)
    say(
        f"   {near:.0%} of the drawn points lie in the steep middle half; {plan.n_evaluations} evaluations in all"
    )
    ax = plot_design(plan, function=RUNGE.function)
    ax.set(title="Algorithm 1 on Runge's function", xlabel="x", ylabel="f(x)")
    return _save(ax, folder / "design.png")


def _demo_weights(folder: Path, say: Print) -> Path:
    from sklearn.datasets import load_breast_cancer, make_moons
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from steep.metrics import paired_interval
    from steep.plotting import plot_weights
    from steep.weighting import VarianceWeighted, sample_weights

    say("2. weigh: breast cancer data, logistic regression, 5-fold cross-validation repeated twice")
    X, y = load_breast_cancer(return_X_y=True)
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0)
    scores = {}
    for ratio in (1, 5, 40):
        model = make_pipeline(StandardScaler(), VarianceWeighted(LogisticRegression(), weight_ratio=ratio))
        scores[ratio] = 100 * cross_val_score(model, X, y, cv=folds)
        difference = paired_interval(scores[1], scores[ratio])
        note = (
            "equal weights" if ratio == 1 else f"{difference.mean:+.2f} ± {difference.half_width:.2f} points"
        )
        say(f"   weight_ratio={ratio:<3} accuracy {scores[ratio].mean():.2f} %   ({note})")
    say(
        "   which ratio helps differs by data set, and equal weights are often best: choose it on held-out data"
    )
    moons, labels = make_moons(300, noise=0.2, random_state=0)
    ax = plot_weights(moons, sample_weights(moons, labels))
    ax.set(title="Weights of the double moon: heavy near the boundary", xlabel="$x_0$", ylabel="$x_1$")
    return _save(ax, folder / "weights.png")


def _demo_improve(say: Print) -> None:
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from steep.exceptions import MissingExtraError

    say(
        "3. improve: a small network on scikit-learn's digits, its head re-trained and chosen on held-out digits"
    )
    try:
        from steep import nn
    except MissingExtraError as error:
        say(f"   skipped: {error}")
        return
    X, y = load_digits(return_X_y=True)
    parts = train_test_split(X.astype(np.float32) / 16, y, train_size=800, test_size=600, random_state=0)
    network = nn.train_ensemble(
        parts[0],
        parts[2],
        layers=(64,),
        loss="cross_entropy",
        n_members=1,
        epochs=200,
        learning_rate=0.01,
        random_state=0,
    ).network(0)
    result = nn.improve(network, (parts[0], parts[2]), (parts[1], parts[3]), n_neighbors=(20,))
    say(f"   {result.verdict}")


def _save(ax: Any, path: Path) -> Path:
    from matplotlib import pyplot

    from steep._files import write_whole

    write_whole(path, lambda temporary: ax.figure.savefig(temporary, dpi=150))
    pyplot.close(ax.figure)
    return path
