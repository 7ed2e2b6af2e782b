"""How large pages are and how long they take to write and to open, beside the bundles of a plotting library.

python benchmarks/pages.py                                    pages of 569, 1,797 and 1,000,000 samples
python benchmarks/pages.py --bundle plotly-basic.min.js       also a page with that script and 10,000 points

A page is open when it is drawn: two frames after its load event, in a headless Chromium that is running already. CPU
seconds are those of all its processes, which other work on the machine changes little. Needs a browser (STEEP_BROWSER,
or chromium on the path).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import psutil
from sklearn.datasets import load_breast_cancer, load_digits

from reproduction.records import machine, write_json
from steep import neighbor_variance, rescale
from steep.report import weighting_page

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browsing import open_browser

RESULTS = Path(__file__).parent / "results" / "pages.json"
ASSETS = Path(__file__).parents[1] / "src" / "steep" / "report" / "assets"
OPENINGS = 7
DRAWN = """() => new Promise((done) => {
  const drawn = () => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
  if (document.readyState === "complete") drawn(); else addEventListener("load", drawn);
})"""


def samples(name):
    """Samples, labels, variation and pictures of one data set."""
    if name == "cancer":
        data = load_breast_cancer()
        return data.data, data.target, neighbor_variance(data.data, data.target), None
    if name == "digits":
        data = load_digits()
        return data.data, data.target, neighbor_variance(data.data, data.target), data.images
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000_000, 30)).astype(np.float32)
    return X, rng.integers(0, 3, len(X)), rng.gamma(1.0, size=len(X)), None


def write(name, folder):
    """Write one page; the path and the seconds it took."""
    X, y, variation, images = samples(name)
    began = time.perf_counter()
    path = weighting_page(folder / f"{name}.html", X=X, y=y, weights=rescale(variation), images=images)
    return path, time.perf_counter() - began


def write_bundle(script, folder):
    """A page with a bundle of plotly.js and 10,000 points: nothing else."""
    rng = np.random.default_rng(0)
    trace = {"x": rng.normal(size=10_000).round(4).tolist(), "y": rng.normal(size=10_000).round(4).tolist(),
             "mode": "markers", "type": "scatter"}  # fmt: skip
    path = folder / f"{Path(script).stem}.html"
    bundle = Path(script).read_text(encoding="utf-8")
    path.write_text(
        f"<!doctype html><meta charset=utf-8><div id=map></div><script>{bundle}</script>"
        f"<script>Plotly.newPlot('map', [{json.dumps(trace)}])</script>",
        encoding="utf-8",
    )
    return path


def opened(browser, path):
    """Seconds until a page is drawn, and CPU seconds spent on it, again and again."""
    seconds, cpu = [], []
    for _ in range(OPENINGS):
        page = browser.new_page()
        before = browser_cpu()
        page.goto(path.as_uri(), wait_until="commit")
        seconds.append(page.evaluate(DRAWN) / 1000)
        cpu.append(browser_cpu() - before)
        page.close()
    return {"open_median": statistics.median(seconds), "open_least": min(seconds), "open_most": max(seconds),
            "cpu_median": statistics.median(cpu)}  # fmt: skip


def browser_cpu():
    """CPU seconds of every process of the browser so far."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "chrom" in process.name():
                times = process.cpu_times()
                total += times.user + times.system
    return total


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--bundle", type=Path, action="append", default=[])
    bundles = options.parse_args().bundle
    if find_spec("plotly"):
        import plotly

        bundles.insert(0, Path(plotly.__file__).parent / "package_data" / "plotly.min.js")
    found = {"scripts and style of steep": {"bytes": sum(file.stat().st_size for file in ASSETS.iterdir())}}
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        for name in ("cancer", "digits", "million"):
            path, seconds = write(name, Path(folder))
            found[name] = {"bytes": path.stat().st_size, "write_seconds": seconds, **opened(browser, path)}
        for script in bundles:
            path = write_bundle(script, Path(folder))
            found[script.name] = {"bytes": script.stat().st_size, **opened(browser, path)}
    for name, figures in found.items():
        told = ", ".join(f"{key} {value:,.3g}" if value < 1e4 else f"{key} {value:,}" for key, value in figures.items())
        print(f"{name}: {told}")
    write_json(RESULTS, {"pages": found, "openings": OPENINGS, **machine(["steep", "playwright", "plotly"])})


if __name__ == "__main__":
    main()
