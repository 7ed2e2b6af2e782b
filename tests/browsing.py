"""A real browser for the tests of pages: Chromium, driven through Playwright.

Where no browser is installed the tests are skipped and say so; where ``STEEP_NEEDS_BROWSER`` is set, as in .ci/run,
that is a failure.
"""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


def find_browser():
    """Path of a browser, or a skip that says what is missing."""
    found = os.environ.get("STEEP_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        said = f"no browser found: none of {', '.join(NAMES)}, and STEEP_BROWSER is not set"
        if os.environ.get("STEEP_NEEDS_BROWSER"):
            pytest.fail(said)
        pytest.skip(said)
    return found


@contextmanager
def open_browser():
    """A headless Chromium, closed at the end."""
    from playwright.sync_api import sync_playwright

    path = find_browser()
    with sync_playwright() as playwright:
        # As root, as containers run, Chromium starts without its sandbox only; the pages are our own.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """One page in one window, with everything it complained about or asked for."""

    def __init__(self, browser, path, *, dark=False, phone=False):
        self.complaints, self.requests, self.blocked = [], [], []
        self.context = browser.new_context(
            viewport=PHONE if phone else DESK, color_scheme="dark" if dark else "light", accept_downloads=True
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)
        self.page.on("requestfailed", lambda request: self.blocked.append((request.url, request.failure)))
        self.page.goto(path.as_uri())
        self.settle()

    def _dialog(self, dialog):
        self.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _request(self, request):
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.requests.append(request.url)

    def settle(self):
        """Wait until what was asked to be drawn is drawn."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def pixels(self, selector):
        """What a canvas shows, as text that differs when it does."""
        self.settle()
        return self.page.eval_on_selector(selector, "canvas => canvas.toDataURL()")

    def download(self, selector):
        """Text of the file that a button gives."""
        with self.page.expect_download() as file:
            self.page.click(selector)
        with open(file.value.path(), encoding="utf-8", newline="") as opened:
            return opened.read()

    def close(self):
        self.context.close()


_CHECKS = Path(__file__).parent / "report"
LOW_CONTRAST, UNLABELLED = ((_CHECKS / name).read_text(encoding="utf-8") for name in ("contrast.js", "labels.js"))
