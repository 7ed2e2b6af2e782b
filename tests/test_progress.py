"""The bar, drawn on a real terminal."""

import io
import os
import pty
import termios
from contextlib import redirect_stderr, suppress

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from steep import VarianceWeightedCV, _progress
from steep._progress import progress, progress_bar


class Terminal:
    """A pseudo-terminal; ``stream`` is its near side, ``close`` hangs up and returns what was shown."""

    def __init__(self):
        self.far, near = pty.openpty()
        termios.tcsetwinsize(near, (24, 120))
        self.stream = os.fdopen(near, "w")

    def close(self):
        if self.far is None:
            return ""
        os.write(self.stream.fileno(), b"$")  # so that the read below has an end
        shown = b""
        while not shown.endswith(b"$"):
            shown += os.read(self.far, 65536)
        self.hang_up()
        return shown[:-1].decode()

    def hang_up(self):
        os.close(self.far)
        self.far = None


@pytest.fixture
def terminal():
    terminal = Terminal()
    yield terminal
    terminal.close()
    with suppress(OSError):  # what is still unwritten when the far side has gone
        terminal.stream.close()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(_progress, "_PATIENCE_SECONDS", 0)


def count(n=8, **options):
    return list(progress(range(n), total=n, label="folds", **options)) == list(range(n))


def test_progress_is_shown_on_a_terminal(terminal, impatient):
    with redirect_stderr(terminal.stream):
        assert count()
    shown = terminal.close()
    assert "folds: 100%" in shown
    assert "8/8" in shown


def test_short_work_shows_nothing(terminal, monkeypatch):
    monkeypatch.setattr(_progress, "_PATIENCE_SECONDS", 3600)
    with redirect_stderr(terminal.stream):
        assert count()
    assert terminal.close() == ""


def test_nothing_is_shown_where_nobody_watches(impatient):
    with redirect_stderr(io.StringIO()) as stream:
        assert count()
    assert stream.getvalue() == ""


def test_the_caller_decides_if_told_so(terminal, impatient):
    with redirect_stderr(terminal.stream):
        assert count(shown=False)
    assert terminal.close() == ""
    with redirect_stderr(io.StringIO()) as stream:
        assert count(shown=True)
    assert "8/8" in stream.getvalue()


def test_figures_stand_beside_the_bar(terminal):
    with redirect_stderr(terminal.stream), progress_bar(total=10, label="runs", done=4, shown=True) as bar:
        assert bar.shown
        bar.counts(7, failed=2)
        bar.counts(10, failed=3)
    shown = terminal.close()
    assert "4/10" in shown
    assert "10/10" in shown
    assert "failed=3" in shown


@pytest.mark.parametrize("shown", [None, True])
def test_work_goes_on_without_stderr(shown):
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed):
        with redirect_stderr(stream):
            assert count(shown=shown)


def test_work_goes_on_when_the_terminal_goes_away(terminal):
    done = []
    with redirect_stderr(terminal.stream), progress_bar(total=50, label="runs", shown=True) as bar:
        for i in range(50):
            if i == 10:
                terminal.hang_up()
            bar.counts(i + 1, failed=i)
            done.append(i)
    assert len(done) == 50


def test_an_error_of_the_work_passes_through(terminal):
    with redirect_stderr(terminal.stream), pytest.raises(ZeroDivisionError):
        list(progress((1 / i for i in range(2)), total=2, label="runs", shown=True))


def test_a_search_shows_its_fits(terminal, impatient):
    X = np.random.default_rng(0).normal(size=(40, 2))
    search = VarianceWeightedCV(Ridge(), n_neighbors=(3,), weight_ratio=(1, 3), cv=2, random_state=0)
    with redirect_stderr(terminal.stream):
        search.fit(X, X[:, 0])
    assert "fits: 100%" in terminal.close()
