"""Every page in a real browser: it opens quietly, asks no one, and does what it offers."""

import numpy as np
import pytest

from browsing import LOW_CONTRAST, UNLABELLED

from .conftest import WRITERS

pytestmark = pytest.mark.slow
KINDS = sorted(WRITERS)


def move(there, value):
    """Put the slider of a page somewhere, as a hand would."""
    there.page.eval_on_selector(
        "#ratio", "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
    )
    there.settle()


def column(there, table, place):
    """Texts of the visible cells of one column."""
    return there.page.eval_on_selector_all(
        f"#{table} tbody tr:not([hidden])", f"rows => rows.map(row => row.cells[{place}].textContent.trim())"
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_opens_quietly_and_everything_can_be_read(kind, dark, written, visit):
    there = visit(written(kind), dark=dark)
    assert there.complaints == []
    assert there.requests == []
    assert there.page.evaluate(LOW_CONTRAST) == []
    assert there.page.evaluate(UNLABELLED) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_fits_a_phone(kind, written, visit):
    there = visit(written(kind), phone=True)
    assert there.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert there.complaints == []
    assert there.page.evaluate(UNLABELLED) == []


def test_the_check_of_contrast_can_fail(written, visit):
    there = visit(written("weights"))
    there.page.evaluate("document.querySelector('.sentence').style.color = '#bbbbbb'")
    assert there.page.evaluate(LOW_CONTRAST)
    there.page.evaluate(
        "document.querySelector('.filter').closest('label').replaceWith(document.querySelector('.filter'))"
    )
    assert any("no label" in found for found in there.page.evaluate(UNLABELLED))


def test_the_slider_changes_map_histogram_figures_and_table(written, visit):
    there = visit(written("weights"))
    parts = {
        "map": lambda: there.pixels("#map"),
        "histogram": lambda: there.page.inner_html("#histogram"),
        "classes": lambda: there.page.inner_html("#groups-chart"),
        "figure": lambda: there.page.inner_text("#figure-worth"),
        "table": lambda: column(there, "samples", 2),
        "value": lambda: there.page.inner_text("#ratio-value"),
    }
    before = {name: read() for name, read in parts.items()}
    move(there, 560)
    assert [name for name, read in parts.items() if read() == before[name]] == []
    there.page.click("#ratio-reset")
    assert {name: read() for name, read in parts.items()} == before


def test_keys_move_the_slider(written, visit):
    there = visit(written("weights"))
    there.page.focus("#ratio")
    before = there.pixels("#map")
    for _ in range(60):
        there.page.keyboard.press("ArrowLeft")
    assert there.pixels("#map") != before
    assert there.page.get_attribute("#ratio", "aria-valuetext") == there.page.inner_text("#ratio-value")


def test_a_table_sorts_by_a_click_and_by_a_key(written, visit):
    there = visit(written("weights"))
    heading = there.page.locator("#samples thead th").nth(3)  # mean radius
    values = lambda: [float(text) for text in column(there, "samples", 3)]  # noqa: E731
    before = values()
    heading.locator("button").click()
    assert values() == sorted(before, reverse=True) != before
    assert heading.get_attribute("aria-sort") == "descending"
    heading.locator("button").focus()
    there.page.keyboard.press("Enter")
    assert values() == sorted(before)
    assert heading.get_attribute("aria-sort") == "ascending"
    assert there.page.locator("#samples [aria-sort]").count() == 1


def test_a_table_shows_what_is_typed(written, visit):
    there = visit(written("weights"))
    labels = column(there, "samples", 1)
    there.page.fill("[data-tools=samples] .filter", "MALIGNANT 1")
    kept = column(there, "samples", 1)
    assert 0 < len(kept) < len(labels)
    assert there.page.inner_text("[data-tools=samples] .count") == f"{len(kept)} of {len(labels)} rows"
    there.page.fill("[data-tools=samples] .filter", "")
    assert column(there, "samples", 1) == labels


def test_the_pointer_and_the_keys_tell_of_a_sample(written, visit):
    there = visit(written("weights of pictures"))
    canvas = there.page.locator("#map")
    canvas.focus()
    there.page.keyboard.press("ArrowRight")
    first = there.page.inner_text("#map-status")
    assert first.startswith("row ")
    assert "weight" in first
    there.page.keyboard.press("ArrowRight")
    assert there.page.inner_text("#map-status") != first
    there.page.keyboard.press("Escape")
    assert there.page.locator("#map-tip").is_hidden()
    box = canvas.bounding_box()
    for x in np.linspace(0.2, 0.8, 40):
        there.page.mouse.move(box["x"] + x * box["width"], box["y"] + 0.5 * box["height"])
        if there.page.locator("#map-tip").is_visible():
            break
    assert there.page.locator("#map-tip b").count() == 1
    assert there.complaints == []


def test_a_row_is_found_on_the_map(written, visit):
    there = visit(written("weights of pictures"))
    before = there.pixels("#map")
    there.page.locator("#samples button.find").first.click()
    assert there.pixels("#map") != before
    row = there.page.locator("#samples tbody tr").first
    assert "chosen" in row.get_attribute("class")


def test_the_axes_and_the_colour_of_the_map_can_be_chosen(written, visit):
    there = visit(written("weights"))
    seen = {there.pixels("#map")}
    for pick, value in (("#map-x", "4"), ("#map-y", "5"), ("#map-colour", "label")):
        there.page.select_option(pick, value)
        seen.add(there.pixels("#map"))
    assert len(seen) == 4
    assert "benign" in there.page.inner_text("#map-legend")


def test_the_button_turns_the_page_dark(written, visit):
    there = visit(written("weights"))
    before, back = there.pixels("#map"), "getComputedStyle(document.body).backgroundColor"
    light = there.page.evaluate(back)
    there.page.click("#theme")
    there.page.click("#theme")
    assert there.page.inner_text("#theme-name") == "dark"
    assert there.page.evaluate(back) != light
    assert there.pixels("#map") != before
    assert there.page.evaluate(LOW_CONTRAST) == []


def test_equal_weights_offer_no_slider(written, visit):
    there = visit(written("equal weights"))
    assert there.page.locator("#ratio").is_hidden()
    assert "same weight" in there.page.inner_text(".verdict")


def test_a_design_shows_its_points_and_the_latest_results(written, visit):
    there = visit(written("design"))
    assert there.page.eval_on_selector_all("img.picture", "all => all.map(one => one.naturalWidth > 100)") == [True]
    assert [int(text) for text in column(there, "runs", 0)] == [*range(119, 19, -1)]


def test_a_campaign_tells_what_failed_without_obeying_it(written, visit):
    there = visit(written("campaign"))
    text = there.page.inner_text("#failures")
    assert "ValueError: diverged at <b>step</b> 17" in text
    there.page.locator("#failures summary").first.click()
    assert "Traceback" in there.page.inner_text("#failures pre >> nth=0")
    assert there.page.locator("#failures b").count() == 0
