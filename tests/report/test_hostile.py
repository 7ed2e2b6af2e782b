"""Data full of markup are shown, not obeyed: in every page, in a parser and in a real browser."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from steep import Adaptive, Campaign, Category, design, suspects
from steep.evidence import Verdict
from steep.metrics import Interval
from steep.report import campaign_page, design_page, weighting_page

from .conftest import EVIL


def evil(n):
    return [f"{i}{EVIL}" for i in range(n)]


def weights_page(path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=evil(2))
    verdict = Verdict(f"said {EVIL}", Interval(0.1, 0.05, 0.2, 9), EVIL, _results())
    return weighting_page(
        path, X=X, y=np.array(evil(2))[np.arange(60) % 2], weights=rng.random(60) + 0.1,
        target=f"target{EVIL}", verdict=verdict, title=f"title{EVIL}", texts=evil(60),
    )  # fmt: skip


def _results():
    return pd.DataFrame(
        {"measure": [EVIL, None], "n_neighbors": [5, None], "weight_ratio": [3.0, 1.0], f"mean_gain_{EVIL}": [0.1, 0.0]}
    )


def design_page_of_evil(path):
    bounds = {f"a{EVIL}": (0, 1), f"b{EVIL}": Category(*evil(2)), f"c{EVIL}": (0, 1)}
    plan = design(
        lambda X: X[:, 0] * X[:, 2] + X[:, 1], bounds, 40, n_initial=20, strategy=Adaptive(rounds=2), random_state=0
    )
    return design_page(path, plan, title=EVIL)


def campaign_page_of_evil(path):
    def run(**inputs):
        if next(iter(inputs.values())) > 0.8:
            raise ValueError(EVIL)
        return {f"out{EVIL}": sum(v for v in inputs.values() if not isinstance(v, str))}

    with Campaign({f"a{EVIL}": (0, 1), f"b{EVIL}": Category(*evil(2))}, storage=":memory:") as campaign:
        campaign.run(run, 40, retries=0, pass_as="keywords")
        return campaign_page(path, campaign)


def suspects_page_of_evil(path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 3)), columns=evil(3), index=evil(30))
    found = suspects(X, np.array(evil(2))[rng.integers(2, size=30)], n_neighbors=5, random_state=0)
    return found.page(path, texts=evil(30), target=EVIL, title=EVIL)


def suspects_table_of_evil(path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 2)), columns=evil(2)).assign(**{EVIL: evil(30)})
    return suspects(X, rng.normal(size=30), n_neighbors=5, task="regression", random_state=0).page(path, title=EVIL)


WRITERS = {
    "weights": weights_page,
    "design": design_page_of_evil,
    "campaign": campaign_page_of_evil,
    "suspects": suspects_page_of_evil,
    "suspects of a table": suspects_table_of_evil,
}


class Elements(HTMLParser):
    """Names and attributes of every element of a page."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("kind", WRITERS)
def test_no_text_of_the_user_becomes_an_element(kind, tmp_path):
    text = WRITERS[kind](tmp_path / "page.html").read_text(encoding="utf-8")
    found = Elements(text).found
    scripts = [attributes for tag, attributes in found if tag == "script"]
    assert [script.get("type") for script in scripts if script.get("type") != "text/plain"] == [
        "application/json",
        None,
    ]
    assert [attributes for tag, attributes in found if tag == "img" and not attributes["src"].startswith("data:")] == []
    assert [name for _, attributes in found for name in attributes if name.startswith("on")] == []
    assert [tag for tag, _ in found].count("style") == 1
    assert "49&amp;" not in text  # {{7*7}} was not computed
    assert "\u2028" not in text.split('id="data">')[1].split("</script>")[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRITERS)
def test_nothing_of_the_user_runs_in_a_browser(kind, tmp_path, visit):
    there = visit(WRITERS[kind](tmp_path / "page.html"))
    for selector in ("#map-colour", "#map-x"):
        if there.page.locator(selector).count():
            for option in there.page.eval_on_selector_all(f"{selector} option", "all => all.map(o => o.value)"):
                there.page.select_option(selector, option)
    if there.page.locator("#map").count():
        there.page.focus("#map")
        for _ in range(3):
            there.page.keyboard.press("ArrowRight")
        assert there.page.locator("#map-tip").is_visible()
    for opened in there.page.locator("summary").all()[:5]:
        opened.click()
    there.settle()
    assert there.page.evaluate("typeof hacked") == "undefined"
    assert there.complaints == []
    assert there.requests == []
    assert EVIL.split("\u2028")[0] in there.page.content().replace("&lt;", "<").replace("&gt;", ">").replace(
        "&amp;", "&"
    ).replace("&quot;", '"')


@pytest.mark.slow
def test_a_script_that_slipped_through_would_still_not_run(written, visit, tmp_path):
    page = tmp_path / "slipped.html"
    text = written("weights").read_text(encoding="utf-8")
    page.write_text(text.replace("<h1>", "<script>hacked=1</script><img src='https://127.0.0.1/x.png'><h1>", 1))
    there = visit(page)
    assert there.page.evaluate("typeof hacked") == "undefined"
    assert len(there.complaints) == 2  # the policy says so for each
    assert there.blocked == [("https://127.0.0.1/x.png", "csp")]  # before it left
