"""Every table and figure by name, and the file that holds it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from reproduction.jobs import Job, Scale
    from reproduction.summary import Lines, Section

EXPERIMENTS: dict[str, str] = {
    "figure1": "figure_gb", "lemma1": "lemma1", "table1": "table1", "figure2": "figure_f1", "table2": "table2",
    "figure3": "figure_tbs", "table3": "table3", "figure4": "figure_doublem", "figure5": "figure_hyp_search",
    "table4": "table4", "table5": "table5", "table6": "table6", "table7": "table7", "surrogates": "surrogates",
    "open": "open_questions",
}  # fmt: skip

# Figures that are drawn from the lines of another experiment.
ALIASES = {"figure6": "table4"}


class Experiment(Protocol):
    """What the file of a table or figure holds."""

    TITLE: str

    def jobs(self, scale: Scale) -> list[Job]:
        """What has to be run."""
        ...

    def summarize(self, lines: Lines) -> Section:
        """What came out, beside the paper's values."""
        ...


def module(name: str) -> Experiment:
    """The file of an experiment."""
    return cast("Experiment", import_module(f"reproduction.{EXPERIMENTS[name]}"))
