"""The file itself: the same bytes each time, whole or not at all, and JSON that no string can break out of."""

import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steep.exceptions import InputTypeError, MissingExtraError, StorageError
from steep.report import page as pages
from steep.report.page import number, pack, to_json, write_page


@given(st.lists(st.text(max_size=20) | st.sampled_from(["</script>", "<!--", "a&b", "\u2028"]), max_size=4))
@settings(max_examples=60)
def test_json_comes_back_as_it_was_and_holds_no_markup(value):
    text = to_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_json_has_no_number_that_is_none():
    with pytest.raises(ValueError, match="JSON"):
        to_json([float("nan")])


@pytest.mark.parametrize("kind", ["f4", "f8", "u2", "u4"])
def test_packed_numbers_come_back(kind):
    import base64

    values = np.array([0, 1, 2, 65535])
    packed = pack(values, kind)
    raw = np.frombuffer(base64.b64decode(packed["base64"]), dtype=f"<{packed['kind']}")
    np.testing.assert_array_equal(raw, values)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.001234, "−0.00123"),
        (99.96, "100"),
        (1e20, "1e+20"),
        (123456.7, "123,457"),
        (2013, "2013"),  # a year
        (9999.6, "10,000"),
        (np.inf, "∞"),
    ],
)
def test_numbers_are_written_for_people(value, text):
    assert number(value) == text


def plain(path, **options):
    return write_page(
        path, "base.html", title="t", verdict={"sentence": "s", "state": "none"}, **options,
    )  # fmt: skip


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    with pytest.raises(StorageError, match="cannot be written"):
        plain(tmp_path / "nowhere" / "page.html")
    with pytest.raises(InputTypeError, match="expected a str or a Path"):
        plain(3)
    old = tmp_path / "page.html"
    old.write_text("old")
    with pytest.raises(ValueError, match="JSON"):
        plain(old, data=float("inf"))
    assert old.read_text() == "old"


def test_the_policy_names_the_style_and_the_script_of_the_page(tmp_path):
    import base64
    import hashlib
    import re

    text = plain(tmp_path / "page.html").read_text(encoding="utf-8")
    policy = re.search(r'Security-Policy" content="([^"]*)"', text)[1].replace("&#39;", "'")
    for name in ("style", "script"):
        body = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy.replace("&#43;", "+")
    assert "default-src 'none'" in policy


def test_nothing_in_a_page_points_elsewhere(tmp_path):
    text = plain(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "http://www.w3.org/2000/svg" in text  # a name, which is never fetched
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace('http-equiv="', "")


def test_without_jinja_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    pages._environment.cache_clear()
    with pytest.raises(MissingExtraError, match=r"pip install 'steep\[report\]'"):
        plain(tmp_path / "page.html")
    pages._environment.cache_clear()
