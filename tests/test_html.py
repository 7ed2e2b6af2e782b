"""Results in a notebook: every one shows itself, and what the user named is text."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from steep import Adaptive, Campaign, Category, design, suspects
from steep._html import card
from steep.evidence import Verdict
from steep.metrics import Interval

EVIL = "<script>x</script>\"'<img src=x onerror=x>"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.names, self.handlers = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def design_of_evil():
    bounds = {f"a{EVIL}": (0, 1), f"b{EVIL}": Category(f"x{EVIL}", "y")}
    return design(lambda X: X.sum(axis=1), bounds, 12, n_initial=8, strategy=Adaptive(rounds=1), random_state=0)


def campaign_of_evil():
    campaign = Campaign({f"a{EVIL}": (0, 1)}, storage=":memory:", outputs=[f"out{EVIL}"])
    campaign.run(lambda x: float(x[0]), 10, pass_as="array")
    return campaign


def verdict_of_evil():
    table = pd.DataFrame({f"c{EVIL}": [f"v{EVIL}"]}, index=[f"i{EVIL}"])
    return Verdict(f"said {EVIL}", Interval(0.2, 0.1, 0.3, 5), EVIL, table)


RESULTS = {
    "design": design_of_evil,
    "campaign": campaign_of_evil,
    "verdict": verdict_of_evil,
    "suspects": lambda: suspects(
        np.random.default_rng(0).random((40, 2)),
        [f"{i % 2}{EVIL}" for i in range(40)],
        pred_probs=np.full((40, 2), 0.5),
        random_state=0,
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_shows_itself_and_obeys_no_text(name):
    text = RESULTS[name]()._repr_html_()
    tags = Tags(text)
    assert tags.names[0] == "div"
    assert not {"script", "img"} & set(tags.names)
    assert tags.handlers == []
    if name in ("design", "campaign", "verdict", "suspects"):
        assert "&lt;script&gt;" in text


def test_a_closed_campaign_shows_that_it_is_closed():
    campaign = campaign_of_evil()
    campaign.close()
    assert "closed" in campaign._repr_html_()


def test_a_card_cuts_long_tables_and_says_so():
    text = card("T", table=pd.DataFrame({"a": range(50)}), rows=5)
    assert "the first 5 of 50 rows" in text
    assert "<td>4</td>" in text
    assert "<td>5</td>" not in text


def test_figures_are_written_for_people():
    text = card("T", figures={"n": 12345, "error": 0.123456, "what": "<b>"}, share=2.0)
    assert "<b>12,345</b>" in text
    assert "<b>0.1235</b>" in text
    assert "&lt;b&gt;" in text
    assert 'value="1.0000"' in text
