"""Write the reference: one page per job from docstrings, a list of all names, and the help of the commands.

python docs/reference.py            # writes the pages below docs/reference
python docs/reference.py --check    # exit code 1 if a page is stale
"""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import os
import re
import sys
from importlib import import_module
from pathlib import Path

os.environ.update({"TERMINAL_WIDTH": "100", "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"})

ROOT = Path(__file__).parents[1]
HERE = ROOT / "docs" / "reference"
# Title, page, and one line per name: the name, and what to see also (names, or pages below docs/).
PAGES = [
    (
        "Designs and campaigns",
        "designs",
        """
        steep.design: steep.Campaign steep.Design steep.Adaptive tutorials/design how-to/designs
        steep.Design: steep.design steep.plotting.plot_design steep.report.design_page
        steep.Adaptive: steep.design reference/measures
        steep.Taylor: steep.design steep.taylor_variation how-to/derivatives
        steep.Variance: steep.design steep.neighbor_variance
        steep.Even: steep.design steep.Adaptive
        steep.Campaign: steep.design steep.command_simulator how-to/campaigns how-to/clusters reference/campaign-file
        steep.command_simulator: steep.Campaign reference/campaign-file
        steep.campaign.Slurm: steep.Campaign how-to/clusters
        steep.Box: steep.Log steep.Integer steep.Category how-to/designs
        steep.Log: steep.Box steep.Integer steep.Category
        steep.Integer: steep.Box steep.Log steep.Category
        steep.Category: steep.Box steep.Log steep.Integer
        steep.VariationSampler: steep.design steep.Taylor
        steep.sampling.hedge.Hedge: steep.Design explanation/concepts
        steep.campaign.status.Status: steep.Campaign how-to/campaigns
        """,
    ),
    (
        "Surrogates",
        "surrogates",
        """
        steep.Surrogate: steep.emulate steep.hybrid tutorials/surrogate how-to/surrogates
        steep.surrogate.Certificate: steep.Surrogate steep.emulate
        steep.surrogate.OutputError: steep.surrogate.Certificate
        steep.emulate: steep.Surrogate steep.hybrid tutorials/surrogate how-to/surrogates
        steep.hybrid: steep.surrogate.Hybrid steep.emulate how-to/surrogates
        steep.surrogate.Hybrid: steep.hybrid steep.surrogate.HybridReport
        steep.surrogate.HybridReport: steep.surrogate.Hybrid
        """,
    ),
    (
        "Weights",
        "weights",
        """
        steep.VarianceWeightedCV: steep.WeightSearch steep.sample_weights tutorials/weights how-to/weights
        steep.WeightSearch: steep.VarianceWeightedCV steep.evidence.Verdict
        steep.VarianceWeighted: steep.VarianceWeightedCV steep.sample_weights
        steep.sample_weights: steep.VarianceWeightedCV steep.rescale steep.dask.sample_weights how-to/choose-a-measure
        steep.Rescaling: steep.rescale steep.sample_weights
        steep.rescale: steep.Rescaling steep.sample_weights steep.neighbor_variance
        """,
    ),
    (
        "Wrong labels",
        "suspects",
        """
        steep.suspects: steep.Suspects tutorials/suspects how-to/suspects
        steep.Suspects: steep.suspects recipes/cleanlab
        """,
    ),
    (
        "Networks",
        "networks",
        """
        steep.nn.improve: steep.nn.Improvement steep.nn.HeadSearch steep.nn.split tutorials/improve how-to/improve
        steep.nn.HeadSearch: steep.nn.improve steep.nn.Balanced steep.nn.PseudoGroups steep.nn.Doubted
        steep.nn.Balanced: steep.nn.HeadSearch
        steep.nn.PseudoGroups: steep.nn.HeadSearch
        steep.nn.Doubted: steep.nn.HeadSearch
        steep.nn.Improvement: steep.nn.improve
        steep.nn.retrain_head: steep.nn.improve steep.nn.split
        steep.nn.project: steep.nn.Projection how-to/larger-than-memory
        steep.nn.Projection: steep.nn.project steep.nn.improve
        steep.nn.split: steep.nn.Split steep.nn.improve
        steep.nn.Split: steep.nn.split
        steep.nn.torch_derivatives: steep.Taylor steep.taylor_variation how-to/derivatives
        """,
    ),
    (
        "Neighbours and measures",
        "neighbors",
        """
        steep.neighbor_graph: steep.neighbors.NeighborTransformer how-to/neighbor-graph
        steep.neighbors.NeighborTransformer: steep.neighbor_graph how-to/neighbor-graph
        steep.neighbors.sparse_graph: steep.neighbor_graph recipes/cleanlab
        steep.neighbors.GraphInfo: steep.neighbor_graph
        steep.neighbor_variance: steep.sample_weights steep.dask.neighbor_variance reference/measures
        steep.taylor_variation: steep.Taylor steep.perturbation_variance how-to/derivatives
        steep.perturbation_variance: steep.taylor_variation steep.Adaptive
        steep.surprise_variation: steep.Adaptive reference/measures
        steep.WeightedGaussianMixture: steep.Taylor
        steep.measures.Measure: how-to/add-a-measure reference/measures
        """,
    ),
    (
        "Larger than memory",
        "dask",
        """
        steep.dask.sample_weights: steep.sample_weights how-to/larger-than-memory
        steep.dask.neighbor_variance: steep.neighbor_variance how-to/larger-than-memory
        """,
    ),
    (
        "Evidence and errors",
        "evidence",
        """
        steep.evidence.Verdict: steep.VarianceWeightedCV steep.nn.improve explanation/concepts
        steep.metrics.Interval: steep.evidence.Verdict
        steep.SteepError: steep.SteepWarning explanation/faq
        steep.SteepWarning: steep.SteepError explanation/faq
        steep.exceptions.RejectedError: steep.SteepError
        """,
    ),
    (
        "Plots and reports",
        "plots",
        """
        steep.plotting: steep.Design steep.Campaign steep.VarianceWeightedCV
        steep.report: steep.design steep.Campaign steep.suspects steep.nn.improve
        """,
    ),
]
COMMANDS = ["", "weight", "suspects", "design", "improve", "campaign"]
COMMANDS += [
    f"campaign {word}"
    for word in (
        "init", "run", "submit", "ask", "tell", "status", "failures", "export", "plot", "page", "import", "correct",
        "retry", "forget", "events",
    )
]  # fmt: skip
COMMAND_INTRODUCTION = """Every command prints its result for people, or with `--json` for programs, and nothing else.
Exit code 0 is success, 2 a wrong input or a failure with one line that says what to do, 130 an interrupt. `--debug`
shows where an error came from. Output files are written whole or not at all."""
# Methods that other parts of steep call, and scikit-learn's own.
HIDDEN = {"set_fit_request", "set_score_request", "get_metadata_routing", "draw_unit", "contains_unit", "embed"}
CLOSED = {
    f"steep.{name}"
    for name in ("Adaptive", "Taylor", "Variance", "Even", "Log", "Integer", "Category", "nn.HeadSearch", "nn.Balanced",
                 "nn.PseudoGroups", "nn.Doubted")
}  # fmt: skip
SECTIONS = {"Parameters": "Parameters", "Other Parameters": "Rarely needed parameters", "Attributes": "Attributes",
            "Returns": "Returns", "Raises": "Raises", "Notes": "Notes", "Examples": "Example"}  # fmt: skip
SECTION = re.compile(r"^(" + "|".join(SECTIONS) + r")\n-{3,}\n", re.M)


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


def entries():
    """(title, page, [(name, thing, what to see also)]); a module stands for its names."""
    for title, page, lines in PAGES:
        inside = []
        for line in lines.split("\n"):
            name, _, also = line.strip().partition(": ")
            if name and inspect.ismodule(found(name)):
                inside += [(f"{name}.{inner}", getattr(found(name), inner), also) for inner in found(name).__all__]
            elif name:
                inside.append((name, found(name), also))
        yield title, page, inside


def kind(thing):
    if not inspect.isclass(thing):
        return "function"
    return "exception" if issubclass(thing, BaseException) else "class"


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


HEADINGS = {name: (page, f"{kind(thing)} `{name}`") for _, page, inside in entries() for name, thing, _ in inside}
PUBLIC = {id(thing): name for _, _, inside in entries() for name, thing, _ in inside}


def link(name, page, shown=None):
    """A link to a name, or to a page below docs/, from a page of the reference."""
    if name in HEADINGS:
        home, heading = HEADINGS[name]
        return f"[{shown or f'`{name}`'}]({'' if home == page else f'{home}.md'}#{anchor(heading)})"
    if name.count(".") and (whole := name.rpartition(".")[0]) in HEADINGS:  # a method
        home, heading = HEADINGS[whole]
        return f"[`{name}`]({'' if home == page else f'{home}.md'}#{anchor(heading)})"
    path = ROOT / "docs" / f"{name}.md"
    if not path.exists():
        raise KeyError(f"{name} is neither a public name nor a page")
    title = re.search(r"^# (.*)", path.read_text(encoding="utf-8"), re.M)[1]
    return f"[{title}]({os.path.relpath(path, HERE)})"


def signature(thing):
    """Parameters with their defaults, and what is returned; annotations of parameters are in the docstring."""
    whole = inspect.signature(thing)
    bare = [p.replace(annotation=p.empty) for name, p in whole.parameters.items() if name not in ("self", "cls")]
    back = str(whole.return_annotation).removeprefix("typing.") if whole.return_annotation is not whole.empty else ""
    back = re.sub(r"\b(?:\w+\.)+(\w)", r"\1", back.replace("<class '", "").replace("'>", ""))
    text = re.sub(
        r"<function (\w+) at 0x\w+>", r"\1", str(whole.replace(parameters=bare, return_annotation=whole.empty))
    )
    return text + (f" -> {back}" if back and not inspect.isclass(thing) else "")


def call(name, thing):
    """The signature as code, on several lines if it is long."""
    text = name + signature(thing)
    if len(text) > 100:
        head, _, rest = text.partition("(")
        inner, _, back = rest.rpartition(")")
        text = f"{head}(\n    {inner},\n){back}" if len(inner) <= 110 else broken(head, inner, back)
    return ["```py", *text.split("\n"), "```", ""]


def broken(head, inner, back):
    """One parameter per line; commas inside brackets and quotes do not end one."""
    parts = re.findall(r"(?:[^,(\['\"]|\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^]]*\]|'[^']*'|\"[^\"]*\")+", inner)
    return f"{head}(\n" + "".join(f"    {part.strip()},\n" for part in parts) + f"){back}"


def markdown(text, page, home=""):
    """Prose of a docstring: roles become links or code, and names of pages become links."""

    def role(match):
        name = match[2].lstrip("~")
        for full in (name, f"steep.{name}", f"steep.nn.{name}", f"{home}.{name}"):
            if full in HEADINGS or (full.count(".") > 1 and full.rpartition(".")[0] in HEADINGS):
                return link(full, page, f"`{name.removeprefix('steep.exceptions.')}`")
        return f"`{name}`"

    text = re.sub(r":(\w+):`([^`]*)`", role, text).replace("``", "`")
    return re.sub(r"`docs/([\w/-]+)\.md`", lambda m: link(m[1], page), text)


def listed(text, page, home):
    """``name : type`` and its indented text, one item of a list for each; what has no text is a line."""
    lines = []
    for item in re.split(r"\n(?=\S)", text.strip("\n")):
        head, _, body = item.partition("\n")
        name, colon, what = head.partition(" : ")
        body = markdown(" ".join(inspect.cleandoc(body).split()), page, home)
        told = f" ({markdown(what.strip(), page, home)})" if colon else ""
        lines.append(f"- `{name.strip()}`{told}" + (f": {body}" if body else ""))
    return [*lines, ""]


def imports(example, module):
    """What an example takes from its module, as lines that a reader needs to run it."""
    code = "".join(one.source for one in doctest.DocTestParser().get_examples(example))
    nodes = list(ast.walk(ast.parse(code)))
    known = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    known |= {node.arg for node in nodes if isinstance(node, ast.arg)} | set(dir(builtins))
    known |= {node.asname or node.name.partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    known |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler)}
    lines = []
    for name in sorted({node.id for node in nodes if isinstance(node, ast.Name)} - known):
        thing = getattr(sys.modules[module], name)
        if inspect.ismodule(thing):
            home = thing.__name__
            lines.append(f">>> import {home}" + (f" as {name}" if name != home else ""))
        else:
            home = PUBLIC.get(id(thing), f"{thing.__module__}.{name}").rpartition(".")[0]
            lines.append(f">>> from {home} import {name}")
    return sorted(lines, key=lambda line: ("from" in line, line))


def described(thing, page, home):
    """The whole docstring as Markdown."""
    parts = SECTION.split(inspect.getdoc(thing) or "")
    lines = [markdown(parts[0].strip(), page, home), ""]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        lines += [f"**{SECTIONS[title]}**", ""]
        if title == "Examples":
            lines += ["```pycon", *imports(body, thing.__module__), *body.strip().split("\n"), "```", ""]
        elif title == "Notes":
            lines += [markdown(body.strip(), page, home), ""]
        else:
            lines += listed(body, page, home)
    return lines


def members(thing):
    """(name, member) of what a class itself offers."""
    for name, member in inspect.getmembers(thing):
        home = next((base for base in thing.__mro__ if name in vars(base)), None)
        ours = home is not None and home.__module__.startswith("steep")
        shown = isinstance(member, property) or callable(member)
        if ours and shown and not name.startswith("_") and name not in HIDDEN and inspect.getdoc(member):
            yield name, member


def entry(name, thing, also, page):
    lines = [f"## {HEADINGS[name][1]}", ""]
    lines += [] if kind(thing) == "exception" else call(name, thing)
    lines += described(thing, page, name)
    inside = [] if name in CLOSED or kind(thing) != "class" else list(members(thing))
    if held := [(inner, member) for inner, member in inside if isinstance(member, property)]:
        lines += ["**Properties**", ""]
        lines += [f"- `{inner}`: {markdown(' '.join(inspect.getdoc(m).split()), page, name)}" for inner, m in held]
        lines.append("")
    lines += ["**See also**: " + ", ".join(link(word, page) for word in also.split()), ""]
    for inner, member in inside:
        if not isinstance(member, property):
            short = f"{name.rpartition('.')[2]}.{inner}"
            lines += [f"### {short}", "", *call(short, member), *described(member, page, name)]
    return lines


def first_sentence(thing, page):
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return markdown(text, page).replace("|", "\\|")


def list_page(groups):
    lines = ["# Python", "", "Everything public, by job, with parameters, methods, return types and examples.", ""]
    for title, page, inside in groups:
        lines += [
            f"## {title}",
            "",
            f"All details: [{title.lower()}]({page}.md)",
            "",
            "| Name | What it does |",
            "|---|---|",
        ]
        lines += [f"| {link(name, '')} | {first_sentence(thing, '')} |" for name, thing, _ in inside]
        lines.append("")
    return lines


def command_page():
    from typer.testing import CliRunner

    from steep.cli import app

    lines = ["# Commands", "", COMMAND_INTRODUCTION, ""]
    for words in COMMANDS:
        shown = CliRunner().invoke(app, [*words.split(), "--help"], prog_name="steep")
        text = re.sub(r"\x1b\[[0-9;]*m", "", shown.output)
        body = [line.rstrip() for line in text.strip().splitlines()]
        lines += [f"## steep {words}".rstrip(), "", "```console", *body, "```", ""]
    return lines


def pages():
    groups = list(entries())
    yield "python", list_page(groups)
    yield "command", command_page()
    for title, page, inside in groups:
        yield page, [f"# {title}", "", *(line for one in inside for line in entry(*one, page))]


def main():
    stale = []
    for name, lines in pages():
        page = HERE / f"{name}.md"
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            stale.append(str(page.relative_to(ROOT)))
            if "--check" not in sys.argv:
                page.write_text(text, encoding="utf-8")
    print("\n".join(stale) or "the reference is current")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
