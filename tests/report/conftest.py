"""Pages of every kind, written once; and the browser that opens them."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import Ridge

from browsing import Visit, open_browser
from steep import (
    Adaptive,
    Campaign,
    Category,
    Integer,
    Log,
    VarianceWeightedCV,
    WeightSearch,
    design,
    rescale,
    suspects,
)
from steep.measures.variance import neighbor_variance
from steep.report import campaign_page, design_page, weighting_page

EVIL = "<script>hacked=1</script>\"'><img src=x onerror=hacked=1></style></script><!--{{7*7}}&amp;\u2028$x$"


@pytest.fixture(scope="session")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture
def visit(browser):
    """``visit(path, dark=…, phone=…)`` opens a page."""
    opened = []

    def go(path, **options):
        opened.append(Visit(browser, path, **options))
        return opened[-1]

    yield go
    for one in opened:
        one.close()


def cancer():
    data = load_breast_cancer(as_frame=True)
    return data.data, data.target.map({0: "malignant", 1: "benign"})


def write_cancer(path):
    X, y = cancer()
    variation = neighbor_variance(X, y)
    return weighting_page(path, X=X, y=y, weights=rescale(variation), target="diagnosis", title="Cancer")


def write_numbers(path):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = VarianceWeightedCV(
        Ridge(), weight_ratio=(1, 10), cv=3, search=WeightSearch(n_repeats=1), random_state=0
    ).fit(X, y)
    return weighting_page(path, X=X, y=y, weights=model.sample_weight_, verdict=model.verdict_)


def write_pictures(path):
    data = load_digits()
    X, y = data.data[:300], data.target[:300]
    variation = neighbor_variance(X, y)
    return weighting_page(
        path, X=X, y=y, weights=rescale(variation, weight_ratio=5), images=data.images[:300], target="digit"
    )  # fmt: skip


def write_texts(path):
    rng = np.random.default_rng(0)
    texts = [f"review {i} was {'good' if i % 2 else 'bad'}" for i in range(60)]
    return weighting_page(
        path, X=rng.normal(size=(60, 3)), y=np.arange(60) % 2, weights=rng.random(60) + 0.1, texts=texts
    )


def write_equal(path):
    X, y = cancer()
    return weighting_page(path, X=X, y=y, weights=np.ones(len(y)))


def wave(X):
    return np.tanh(6 * (np.log10(X[:, 0]) + X[:, 1])) + 0.3 * X[:, 2] + 0.5 * (X[:, 3] == 1)


BOUNDS = {"rate": Log(1e-3, 1e3), "a": (-1, 1), "n": Integer(1, 9), "metal": Category("steel", "copper")}


def write_design(path):
    return design_page(path, design(wave, BOUNDS, 120, n_initial=40, strategy=Adaptive(rounds=4), random_state=0))


def write_line(path):
    return design_page(path, design(lambda X: X[:, 0] ** 3, [(0, 1)], 24, n_initial=8, random_state=0))


def failing(u, t):
    if t > 8:
        raise ValueError("diverged at <b>step</b> 17")
    return {"height": u * np.exp(-t), "width": np.tanh(t - 3)}


def write_campaign(path):
    with Campaign({"u": Log(1e-3, 1), "t": (0, 10)}, storage=":memory:") as campaign:
        campaign.run(failing, 52, retries=0)
        campaign.ask(4)
        return campaign_page(path, campaign)


def write_waiting(path):
    with Campaign({"u": (0, 1)}, storage=":memory:") as campaign:
        campaign.ask(3)
        return campaign_page(path, campaign)


def wrong_digits():
    """300 digits, 30 of them labelled as the next one, and which."""
    data = load_digits()
    labels, wrong = data.target[:300].copy(), np.random.default_rng(0).choice(300, 30, replace=False)
    labels[wrong] = (labels[wrong] + 1) % 10
    return data, labels, wrong


def write_suspects(path):
    data, labels, _ = wrong_digits()
    found = suspects(data.data[:300], labels, random_state=0)
    return found.page(path, images=data.images[:300], target="digit")


def write_wrong_numbers(path):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return suspects(X, y, predictions=np.roll(y, 1)).page(path, target="progression")


WRITERS = {
    "weights": write_cancer,
    "weights of numbers": write_numbers,
    "weights of pictures": write_pictures,
    "weights of texts": write_texts,
    "equal weights": write_equal,
    "design": write_design,
    "design of one input": write_line,
    "campaign": write_campaign,
    "campaign that waits": write_waiting,
    "suspects": write_suspects,
    "suspects of numbers": write_wrong_numbers,
}


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """``written(name)``: path of a page of that kind, written when it is first asked for."""
    folder = tmp_path_factory.mktemp("pages")

    def of(name):
        path = folder / f"{name}.html"
        return path if path.exists() else WRITERS[name](path)

    return of
