"""The public surface: its names, its signatures, and what importing it costs."""

import inspect
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import steep

NAMES = {
    "Adaptive", "Box", "Campaign", "Category", "Design", "Even", "Integer", "Log", "Rescaling", "SteepError",
    "SteepWarning", "Surrogate", "Suspects", "Taylor", "Variance", "VarianceWeighted", "VarianceWeightedCV",
    "VariationSampler", "WeightSearch", "WeightedGaussianMixture", "command_simulator", "design", "emulate", "hybrid",
    "neighbor_graph", "neighbor_variance", "perturbation_variance", "rescale", "sample_weights",
    "surprise_variation", "suspects", "taylor_variation",
}  # fmt: skip

LEADING = {
    "taylor_variation": ["function", "X"],
    "perturbation_variance": ["function", "X"],
    "neighbor_variance": ["X", "y"],
    "neighbor_graph": ["X"],
    "sample_weights": ["X", "y"],
    "suspects": ["X", "y"],
    "rescale": ["variation"],
    "VarianceWeighted": ["estimator"],
    "VarianceWeightedCV": ["estimator"],
    "VariationSampler": ["bounds"],
    "design": ["function", "bounds", "n_runs"],
    "Campaign": ["bounds"],
    "command_simulator": ["command"],
    "surprise_variation": ["X", "y"],
    "Surrogate": ["bounds"],
    "hybrid": ["simulator", "model", "tolerance", "risk"],
    "emulate": ["simulator", "bounds", "tolerance", "max_runs"],
}


def test_public_names_are_the_agreed_ones():
    assert set(steep.__all__) == NAMES


@pytest.mark.parametrize(("name", "leading"), LEADING.items())
def test_data_come_first_and_the_rest_is_keyword_only(name, leading):
    parameters = inspect.signature(getattr(steep, name)).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == leading


def sections_of(docstring):
    """Lines of each section of a numpydoc docstring, by its title."""
    lines, sections, title = inspect.cleandoc(docstring).splitlines(), {}, ""
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below and set(below) == {"-"} and len(below) >= 3:
            title = line.strip()
        elif not (line and set(line) == {"-"}):
            sections.setdefault(title, []).append(line)
    return sections


def documented_parameters(docstring, section="Parameters"):
    """Names at the head of each entry of a section: ``X, y : array`` and ``**params`` too."""
    lines = sections_of(docstring).get(section, [])
    entries = [line for line in lines if line and not line.startswith(" ")]
    return [name.strip(" *") for entry in entries for name in entry.partition(" :")[0].split(",")]


def test_the_reader_of_docstrings_tells_parameters_from_prose():
    docstring = """y is here in prose, and n too.

    Parameters
    ----------
    X, y : array
        Some m: text.
    method, clip
        See there.
    **params
        More.

    Returns
    -------
    z : int
    """
    assert documented_parameters(docstring) == ["X", "y", "method", "clip", "params"]


def public_things():
    """(Name, function or class) of everything public."""
    modules = [steep]
    if find_spec("torch"):
        modules.append(import_module("steep.nn"))
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) and issubclass(thing, BaseException):
                continue
            yield f"{module.__name__}.{name}", thing


THINGS = dict(public_things())


RESULTS = {
    name for name, thing in THINGS.items() if inspect.isclass(thing) and not documented_parameters(thing.__doc__)
}


def parameters_of(thing):
    return [name for name in inspect.signature(thing).parameters if name != "self"]


@pytest.mark.parametrize("name", sorted(THINGS.keys() - RESULTS))
def test_the_docstring_has_the_parameters_of_the_signature(name):
    """None too few and none too many; those that are rarely needed come in a section of their own."""
    often, rarely = (documented_parameters(THINGS[name].__doc__ or "", f"{kind}Parameters") for kind in ("", "Other "))
    assert sorted(often + rarely) == sorted(parameters_of(THINGS[name]))
    assert len(often) <= 8, "group the parameters by how often they are needed"
    for section in (often, rarely):
        assert section == [parameter for parameter in parameters_of(THINGS[name]) if parameter in section]


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_the_docstring_of_a_result_names_its_fields(name):
    """Users read results and do not make them: fields stand under Attributes, or in the sentence of a tuple."""
    text = THINGS[name].__doc__
    named = documented_parameters(text, "Attributes") or re.findall(r"\w+", text.lower())
    assert [field for field in parameters_of(THINGS[name]) if field not in named] == []


@pytest.mark.parametrize("name", sorted(THINGS.keys() - RESULTS))
def test_what_users_call_shows_an_example(name):
    assert re.search(r"^\s*>>> ", THINGS[name].__doc__ or "", flags=re.M), f"{name} shows no example"


def test_the_version_has_one_source():
    root = Path(__file__).parents[1]
    stated = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert steep.__version__ == stated
    assert f"\nversion: {stated}\n" in (root / "CITATION.cff").read_text(encoding="utf-8")


def test_every_public_name_has_its_home():
    assert set(steep._HOME) == set(steep.__all__)
    assert set(steep.__all__) <= set(dir(steep))
    with pytest.raises(AttributeError, match="module 'steep' has no attribute 'nothing'"):
        steep.nothing  # noqa: B018


def test_rooms_are_entered_without_an_import_of_their_own():
    code = "import steep; print(steep.neighbors.neighbor_graph.__name__, steep.evidence.Verdict.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["neighbor_graph", "Verdict"]


HEAVY = ["torch", "dask", "distributed", "matplotlib", "plotly", "numba", "llvmlite", "typer", "tqdm"]


def test_import_pulls_in_none_of_the_heavy_libraries():
    code = f"import sys, steep; print(*set({HEAVY!r}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
