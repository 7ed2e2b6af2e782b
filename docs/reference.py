"""Write the reference: names from docstrings, commands from their help, and a list for Sphinx.

python docs/reference.py            # writes docs/reference/python.md, command.md and api.rst
python docs/reference.py --check    # exit code 1 if a page is stale
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from importlib import import_module
from pathlib import Path

os.environ.update({"TERMINAL_WIDTH": "100", "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"})

ROOT = Path(__file__).parents[1]
GROUPS = {
    "Designs and campaigns": """
        steep.design steep.Design steep.Adaptive steep.Taylor steep.Variance steep.Even steep.Campaign
        steep.command_simulator steep.campaign.Slurm steep.Box steep.Log steep.Integer steep.Category
    """,
    "Weights": """
        steep.VarianceWeightedCV steep.WeightSearch steep.VarianceWeighted steep.sample_weights
        steep.Rescaling steep.rescale
    """,
    "Wrong labels": """
        steep.suspects steep.Suspects
    """,
    "Networks": """
        steep.nn.improve steep.nn.HeadSearch steep.nn.Improvement steep.nn.retrain_head steep.nn.project
        steep.nn.Projection steep.nn.split steep.nn.Split steep.nn.WeightedLoss steep.nn.weighted_sampler
        steep.nn.torch_derivatives
    """,
    "Measures and neighbours": """
        steep.neighbor_graph steep.neighbors.NeighborTransformer
        steep.neighbors.sparse_graph steep.neighbors.GraphInfo steep.neighbor_variance
        steep.taylor_variation steep.perturbation_variance steep.surprise_variation
        steep.WeightedGaussianMixture steep.measures.Measure
    """,
    "Larger than memory": """
        steep.dask.sample_weights steep.dask.neighbor_variance
    """,
    "Evidence": """
        steep.evidence.Verdict
    """,
    "Pictures and pages": """
        steep.plotting steep.report
    """,
    "Errors": """
        steep.SteepError steep.SteepWarning steep.exceptions.RejectedError
    """,
}
COMMANDS = ["", "weight", "suspects", "design", "improve", "campaign"]
COMMANDS += [
    f"campaign {word}"
    for word in (
        "init", "run", "submit", "ask", "tell", "status", "failures", "export", "plot", "page", "import", "correct",
        "retry", "forget", "events",
    )
]  # fmt: skip
INTRODUCTION = {
    "python": """Signatures, methods and return types of everything public. `help(steep.design)` and the built guide
(`make docs`) show all parameters, with an example each.""",
    "command": """Every command prints its result for people, or with `--json` for programs, and nothing else. Exit code
0 is success, 2 a wrong input or a failure with one line that says what to do, 130 an interrupt. `--debug` shows
where an error came from. Output files are written whole or not at all.""",
}


def found(name):
    """The public thing of a dotted name."""
    for cut in range(name.count(".") + 1):
        parts = name.rsplit(".", cut)
        try:
            thing = import_module(parts[0])
        except ImportError:
            continue
        for part in parts[1:]:
            thing = getattr(thing, part)
        return thing
    raise ImportError(name)


def signature(thing):
    """Parameters with their defaults, and what comes back; annotations of parameters are in the docstring."""
    try:
        whole = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(…)"
    bare = [p.replace(annotation=p.empty) for name, p in whole.parameters.items() if name not in ("self", "cls")]
    back = str(whole.return_annotation).removeprefix("typing.") if whole.return_annotation is not whole.empty else ""
    back = re.sub(r"\b(?:\w+\.)+(\w)", r"\1", back.replace("<class '", "").replace("'>", ""))
    text = str(whole.replace(parameters=bare, return_annotation=whole.empty))
    text = re.sub(r"<function (\w+) at 0x\w+>", r"\1", text)
    return text + (f" → {back}" if back and not inspect.isclass(thing) else "")


def summary(thing):
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text).replace("``", "`")


def members(thing):
    """(name, call or property, summary) of what a class itself offers."""
    for name, member in inspect.getmembers(thing):
        home = next((base for base in thing.__mro__ if name in vars(base)), None)
        if name.startswith("_") or home is None or not home.__module__.startswith("steep"):
            continue
        if isinstance(member, property):
            yield name, "", summary(member)
        elif callable(member) and summary(member):
            yield name, signature(member), summary(member)


def entry(name):
    thing = found(name)
    public = name
    if inspect.ismodule(thing):
        return [line for inner in thing.__all__ for line in entry(f"{name}.{inner}")]
    call = "" if inspect.isclass(thing) and issubclass(thing, BaseException) else signature(thing)
    lines = [f"### `{public}`", "", *([f"`{public}{call}`", ""] if call else []), summary(thing), ""]
    if inspect.isclass(thing):
        inside = [f"- `.{inner}{call}`: {text}" for inner, call, text in members(thing)]
        lines += [*inside, ""] if inside else []
    return lines


def python_page():
    lines = ["# Python", "", INTRODUCTION["python"], ""]
    for title, names in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in names.split():
            lines += entry(name)
    return "\n".join(lines)


def command_page():
    from typer.testing import CliRunner

    from steep.cli import app

    lines = ["# Commands", "", INTRODUCTION["command"], ""]
    for words in COMMANDS:
        shown = CliRunner().invoke(app, [*words.split(), "--help"], prog_name="steep")
        text = re.sub(r"\x1b\[[0-9;]*m", "", shown.output)
        body = [line.rstrip() for line in text.strip().splitlines()]
        lines += [f"## steep {words}".rstrip(), "", "```text", *body, "```", ""]
    return "\n".join(lines)


def sphinx_page():
    """The same names for autosummary, which makes a page with all parameters for each."""
    lines = ["All parameters", "==============", ""]
    for title, names in GROUPS.items():
        lines += [title, "-" * len(title), "", ".. autosummary::", "   :toctree: api", ""]
        for name in names.split():
            thing = found(name)
            lines += [
                f"   {n}" for n in ([f"{name}.{i}" for i in thing.__all__] if inspect.ismodule(thing) else [name])
            ]
        lines.append("")
    return "\n".join(lines)


def main():
    stale = []
    for name, text in (("python.md", python_page()), ("command.md", command_page()), ("api.rst", sphinx_page())):
        page = ROOT / "docs" / "reference" / name
        text = text.rstrip() + "\n"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            stale.append(str(page.relative_to(ROOT)))
            if "--check" not in sys.argv:
                page.write_text(text, encoding="utf-8")
    print("\n".join(stale) or "the reference is current")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
