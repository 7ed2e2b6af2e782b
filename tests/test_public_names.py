"""The public surface: its names, its signatures, and what importing it costs."""

import inspect
import subprocess
import sys

import pytest

import steep

NAMES = {
    "Box", "Campaign", "Category", "Design", "Integer", "Log", "SteepError", "SteepWarning", "VarianceWeighted",
    "VarianceWeightedCV", "VariationSampler", "WeightedGaussianMixture", "command_simulator", "design",
    "generalization_bound", "neighbor_graph", "neighbor_variance", "perturbation_variance", "rescale",
    "sample_weights", "surprise_variation", "taylor_variation", "weighting_report",
}  # fmt: skip

LEADING = {
    "taylor_variation": ["function", "X"],
    "perturbation_variance": ["function", "X"],
    "neighbor_variance": ["X", "y"],
    "neighbor_graph": ["X"],
    "sample_weights": ["X", "y"],
    "rescale": ["variation"],
    "VarianceWeighted": ["estimator"],
    "VarianceWeightedCV": ["estimator"],
    "VariationSampler": ["bounds"],
    "design": ["function", "bounds"],
    "Campaign": ["bounds"],
    "command_simulator": ["command"],
    "surprise_variation": ["X", "y"],
    "generalization_bound": ["derivative", "cell_sizes", "lipschitz"],
}


def test_public_names_are_the_agreed_ones():
    assert set(steep.__all__) == NAMES


@pytest.mark.parametrize(("name", "leading"), LEADING.items())
def test_data_come_first_and_the_rest_is_keyword_only(name, leading):
    parameters = inspect.signature(getattr(steep, name)).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == leading


@pytest.mark.parametrize("name", sorted(NAMES - {"SteepError", "SteepWarning"}))
def test_docstring_names_every_parameter(name):
    thing = getattr(steep, name)
    documented = inspect.getdoc(thing)
    parameters = [p for p in inspect.signature(thing).parameters if p != "self"]
    assert [p for p in parameters if p not in documented] == []


@pytest.mark.parametrize(
    "module", ["torch", "dask", "distributed", "matplotlib", "plotly", "numba", "llvmlite"]
)
def test_import_does_not_pull_in(module):
    code = f"import sys, steep; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
