"""A constraint as text over the named inputs, ``u0 * t <= 5 and material != 'copper'``: read safely, kept in the file.

Comparisons, ``and``, ``or``, ``not``, ``in``, arithmetic and a few functions; nothing else is ever evaluated.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from steep._validation import FloatArray, shown
from steep.domain import Box
from steep.exceptions import InputError

# Characters of a text: deeper ones than any person writes would exhaust Python's stack.
_LONGEST = 1000
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.Mod: operator.mod, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Not: np.logical_not, ast.And: np.logical_and, ast.Or: np.logical_or,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "min": lambda *values: reduce(np.minimum, values), "max": lambda *values: reduce(np.maximum, values),
}  # fmt: skip
_HOW = f"expected a comparison of inputs such as 'u0 * t <= 5 and t > 1'; functions are {', '.join(_FUNCTIONS)}"


class Expression:
    """A constraint that was written as text; called with points it returns booleans.

    Examples
    --------
    >>> Expression("u**2 < t or m == 'steel'", Box({"u": (0, 1), "t": (0, 1), "m": ["steel", "copper"]}))(
    ...     np.array([[0.5, 0.5, 1], [0.9, 0.5, 1], [0.9, 0.5, 0]])
    ... )
    array([ True, False,  True])
    """

    def __init__(self, text: str, box: Box) -> None:
        self.text, self._names, self._axes = text, box.names, box.axes
        try:
            if len(text) > _LONGEST:
                raise ValueError(f"it has more than {_LONGEST} characters")
            self._tree = ast.parse(text.strip(), mode="eval").body
            self(np.array([[axis.low for axis in box.axes]]))
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
            raise InputError(
                f"constraint {shown(text)} cannot be read ({str(error).partition(' (')[0]}); {_HOW}"
            ) from error

    def __call__(self, X: FloatArray) -> Any:
        """Which points belong to S."""
        columns = dict(zip(self._names, X.T, strict=True))
        for name, axis in zip(self._names, self._axes, strict=True):
            if axis.kind == "category":
                columns[name] = np.array([axis.value(code) for code in X[:, self._names.index(name)]], dtype=object)
        with np.errstate(all="ignore"):
            found = self._value(self._tree, columns)
        if np.asarray(found).dtype != bool:
            raise ValueError("it is a number, not a comparison")
        return np.broadcast_to(found, len(X)).copy()

    def _value(self, node: ast.AST, columns: dict[str, Any]) -> Any:
        """Value of one part, by the kinds of parts that are known."""
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
            return float(node.value) if type(node.value) is int else node.value  # no whole numbers without end
        if isinstance(node, ast.Name):
            if node.id not in columns:
                raise ValueError(f"{node.id!r} is not an input; the inputs are {', '.join(columns)}")
            return columns[node.id]
        if isinstance(node, ast.BinOp | ast.UnaryOp) and type(node.op) in _OPERATORS:
            parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand]
            return _OPERATORS[type(node.op)](*(np.asarray(self._value(part, columns)) for part in parts))
        if isinstance(node, ast.BoolOp):
            return reduce(_OPERATORS[type(node.op)], (self._value(part, columns) for part in node.values))
        if isinstance(node, ast.Compare):
            return self._compared(node, columns)
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        if is_call and node.args and not node.keywords:  # type: ignore[attr-defined]
            return _FUNCTIONS[node.func.id](*(self._value(part, columns) for part in node.args))  # type: ignore[attr-defined]
        raise ValueError(f"{ast.unparse(node)!r} is not allowed")

    def _compared(self, node: ast.Compare, columns: dict[str, Any]) -> Any:
        """A chain of comparisons, ``0 < u <= 1``, or membership in a list."""
        left: Any = self._value(node.left, columns)
        found: Any = np.bool_(True)
        for kind, part in zip(node.ops, node.comparators, strict=True):
            if isinstance(kind, ast.In | ast.NotIn) and isinstance(part, ast.List | ast.Tuple):
                entries = [self._value(entry, columns) for entry in part.elts]
                held: Any = np.any([left == entry for entry in entries], axis=0) if entries else np.bool_(False)
                found = found & (held if isinstance(kind, ast.In) else ~held)
                continue
            if type(kind) not in _OPERATORS:
                raise ValueError(f"{ast.unparse(node)!r} is not allowed")
            right = self._value(part, columns)
            found, left = found & np.asarray(_OPERATORS[type(kind)](left, right), dtype=bool), right
        return found
