"""The page of suspects, driven as a person would: verdicts move the list, and what is exported changes the labels."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from steep import suspects
from steep.exceptions import InputError, SteepError

from .conftest import wrong_digits

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    data, labels, wrong = wrong_digits()
    found = suspects(data.data[:300], labels, random_state=0)
    path = found.page(tmp_path_factory.mktemp("review") / "p.html", images=data.images[:300], target="digit")
    return found, path, data.target[:300], wrong


def press(there, keys):
    for key in keys:
        there.page.keyboard.press(key)


def row_of(there):
    return int(there.page.get_attribute("#card", "data-row"))


def figures(there):
    names = ("#n-looked", "#n-wrong", "#n-left")
    return [int(there.page.inner_text(name).replace(",", "")) for name in names]


def queue(there):
    return there.page.eval_on_selector_all("#queue tbody tr", "rows => rows.map(row => Number(row.dataset.row))")


def test_the_most_suspicious_sample_comes_first_and_each_verdict_counts(digits, visit):
    found, path, _, _ = digits
    there = visit(path)
    assert there.complaints == []
    assert queue(there) == found.top(50).index.tolist()
    first = row_of(there)
    press(there, "a")
    assert figures(there)[:2] == [1, 1]
    assert row_of(there) != first
    press(there, "k")
    assert figures(there)[:2] == [2, 1]


def test_undo_and_later_lead_back(digits, visit):
    _, path, _, _ = digits
    there = visit(path)
    before, first = figures(there), queue(there)
    press(there, "aks")
    assert queue(there) != first
    press(there, "uuu")
    assert figures(there) == before
    assert queue(there) == first
    assert there.page.is_disabled("#undo")


def test_what_is_decided_moves_similar_samples_and_the_estimate(digits, visit):
    _, path, _, _ = digits
    there = visit(path)
    chances = "rows => rows.map(row => [row.dataset.row, Number(row.cells[3].textContent)])"
    read = lambda: dict(there.page.eval_on_selector_all("#queue tbody tr", chances))  # noqa: E731
    before, left = read(), figures(there)[2]
    press(there, "kkkkk")  # none of the worst is wrong: nor are the others as likely as the scores say
    after = read()
    both = before.keys() & after.keys()
    assert len(both) > 30
    assert all(after[row] <= before[row] for row in both)
    assert figures(there)[2] < left / 2


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_an_exported_file_gives_the_right_labels_back(digits, visit, tmp_path, suffix):
    found, path, truth, wrong = digits
    there = visit(path)
    for _ in range(30):
        row = row_of(there)
        there.page.select_option("#other", str(truth[row]))
        there.page.click("#relabel")
    file = tmp_path / f"d.{suffix}"
    file.write_text(there.download(f"#export-{suffix}"), encoding="utf-8")
    new = found.apply(file)
    changed = np.flatnonzero(new != found.label)
    assert_array_equal(new[changed], truth[changed])
    assert len(changed) == figures(there)[1]
    assert len(set(changed) & set(wrong)) >= 25
    gained = found.effect(_model(), decisions=file, random_state=0)
    assert gained["gain"]["corrected"] > 0


def _model():
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier()


def test_decisions_outlast_a_reload(digits, visit):
    _, path, _, _ = digits
    there = visit(path)
    press(there, "aka")
    before, order = there.download("#export-json"), queue(there)
    there.page.reload()
    assert there.page.inner_text("#n-looked") == "3"
    assert queue(there) == order
    assert there.download("#export-json") == before
    assert len(json.loads(before)["decisions"]) == 3


def test_a_label_is_typed_without_the_mouse_and_numbers_keep_their_digits(tmp_path, visit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] / 3
    y[7] = 50
    found = suspects(X, y, random_state=0)
    there = visit(found.page(tmp_path / "p.html"))
    assert row_of(there) == 7
    press(there, "l")
    there.page.keyboard.press("Control+a")
    there.page.keyboard.type("-1.25")
    there.page.keyboard.press("Enter")
    press(there, "a")
    file = tmp_path / "d.csv"
    file.write_text(there.download("#export-csv"), encoding="utf-8")
    new = found.apply(file)
    assert new[7] == -1.25
    second = int(pd.read_csv(file)["row"][1])
    assert new[second] == found.suggested[second]
    assert (new != found.label).sum() == 2


def test_names_of_rows_and_classes_come_back_as_they_are(tmp_path, visit):
    names = ['<b>"a", b</b>', "x,y", " padded "]
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(90, 2)), index=[f'r,"{i}' for i in range(90)])
    found = suspects(X, np.array(names)[np.arange(90) % 3], random_state=0)
    there = visit(found.page(tmp_path / "p.html"))
    press(there, "aaaa")
    file = tmp_path / "d.csv"
    file.write_text(there.download("#export-csv"), encoding="utf-8", newline="")
    assert (found.apply(file) != found.label).sum() == 4
    assert there.complaints == []


def test_a_hundred_thousand_samples_open_quickly(tmp_path, visit):
    import time

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(100_000, 8)), columns=list("abcdefgh"))
    p = np.clip(0.5 + 0.3 * X["a"].to_numpy(), 0.02, 0.98)
    found = suspects(X, (rng.random(100_000) < p).astype(int), pred_probs=np.column_stack([1 - p, p]))
    path = found.page(tmp_path / "p.html")
    assert path.stat().st_size < 10e6
    start = time.perf_counter()
    there = visit(path)
    there.page.wait_for_selector("#queue tbody tr")
    assert time.perf_counter() - start < 3
    assert "20,000 of 100,000" in there.page.inner_text(".figures")
    start = time.perf_counter()
    press(there, "a" * 5)
    there.settle()
    assert time.perf_counter() - start < 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"images": np.ones((3, 2, 2))}, "images is float64 of shape"),
        ({"texts": ["a"]}, "texts has 1 entries for 300 samples"),
        ({"target": 3}, "target is 3, a int"),
        ({"title": 3}, "title is 3, a int"),
        ({"images": "x"}, "images is"),
    ],
)
def test_what_cannot_be_shown_is_one_clear_line_and_no_file(digits, options, said, tmp_path):
    with pytest.raises(SteepError, match=said) as caught:
        digits[0].page(tmp_path / "p.html", **options)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_decisions_about_other_data_are_rejected(digits, visit, tmp_path):
    found, path, _, _ = digits
    there = visit(path)
    press(there, "a")
    file = tmp_path / "d.csv"
    file.write_text(there.download("#export-csv"), encoding="utf-8")
    other = suspects(found.X[::-1], found.label[::-1], random_state=0)
    with pytest.raises(InputError, match="about other data"):
        other.apply(file)
