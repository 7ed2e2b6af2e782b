"""Which column is what: the target, the features, the groups, and what is left out."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from steep.cli.printing import listed
from steep.cli.tables import Table
from steep.exceptions import InputError


@dataclass(frozen=True)
class Roles:
    """The columns by what they are used for.

    Attributes
    ----------
    target : str
        Holds the labels.
    features : tuple of str
        What samples are compared by.
    groups : str or None
        Says which samples belong together.
    dropped : tuple of str
        Left out because the user said so.
    old_weights : tuple of str
        Left out because they hold weights of an earlier run.
    """

    target: str
    features: tuple[str, ...]
    groups: str | None = None
    dropped: tuple[str, ...] = ()
    old_weights: tuple[str, ...] = ()


def assign_roles(
    table: Table,
    *,
    target: str,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    groups: str | None = None,
    weights: Collection[str] = (),
) -> Roles:
    """Give every column its role, or say which name is wrong.

    Parameters
    ----------
    table : Table
        The table.
    target, groups : str
        Columns with a role of their own.
    drop, keep : sequence of str
        Columns to leave out, and columns to use whatever they look like.
    weights : collection of str
        Names under which an earlier run may have written weights.
    """
    dropped = list(drop)
    for name in [target, *keep, *dropped, *([groups] if groups is not None else [])]:
        _check_known(name, table)
    if target in dropped or target == groups:
        raise InputError(f"{target!r} is the target and cannot be dropped or grouped by; leave one of them out")
    _refuse_twins(table, set(dropped))
    old = [name for name in table.names if name in weights and name not in {target, *keep, *dropped}]
    out = {target, groups, *dropped, *old}
    features = tuple(name for name in table.names if name not in out)
    return Roles(target, features, groups, tuple(dict.fromkeys(dropped)), tuple(old))


def _check_known(name: str, table: Table) -> None:
    if name in table.names:
        return
    close = difflib.get_close_matches(name, table.names, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    headless = "; is there a header?" if all(_is_number(known) for known in table.names) else ""
    shown = ", ".join(table.names[:20]) + (", …" if len(table.names) > 20 else "")
    raise InputError(f"{table.title} has no column {name!r}; its columns are {shown}{meant}{headless}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _refuse_twins(table: Table, dropped: set[str]) -> None:
    counts = Counter(table.names)
    twins = [name for name, times in counts.items() if times > 1 and name not in dropped]
    if twins:
        raise InputError(
            f"{table.title} has several columns called {listed(twins)}; expected different names; rename them, or "
            "leave them out with --drop"
        )
