"""How a function of the user's is called: once with all points, or point by point with its inputs by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from steep.exceptions import FunctionError, InputError, InputTypeError

if TYPE_CHECKING:
    from steep.domain import Box

Style = Literal["array", "keywords"]


def style_of(function: Any, names: tuple[str, ...], *, text: str) -> Style:
    """Tell from its signature how a function wants its inputs.

    Parameters
    ----------
    function : callable
        ``f(X)`` of an array of points, or ``f(u0, t)`` of one point.
    names : tuple of str
        The inputs in the bounds.
    text : str
        What the user calls it.

    Examples
    --------
    >>> style_of(lambda X: X[:, 0], ("u0", "t"), text="f")
    'array'
    >>> style_of(lambda u0, t: u0 * t, ("u0", "t"), text="f")
    'keywords'
    """
    if not callable(function):
        raise InputTypeError(f"{text} is a {type(function).__name__}; need a function; name one")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # functions written in C do not tell
        return "array"
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    required = [p.name for p in named if p.default is p.empty]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if set(required) <= set(names) and (takes_any or set(names) <= {p.name for p in named}):
        return "keywords"
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    n_required = sum(p.default is p.empty for p in positional)
    if n_required <= 1 and positional and not set(required) - {positional[0].name}:
        return "array"
    raise InputError(
        f"{text} takes {', '.join(p.name for p in parameters) or 'nothing'} and the bounds have {', '.join(names)}; "
        "need the same names, or one parameter for the array of points; rename them"
    )


def by_keywords(function: Callable[..., Any], box: Box) -> Callable[[Any], Any]:
    """A function of inputs by name as one of a point; outputs by name become a list, in the order of the first."""
    order: list[str] = []

    def call(x: Any) -> Any:
        value = function(**box.decode(x[None])[0])
        if not isinstance(value, dict):
            return value
        if not order:
            order.extend(value)
        if set(order) != set(value):
            raise FunctionError(
                f"the function returned {sorted(value)} after {sorted(order)}; need the same outputs everywhere"
            )
        return [value[name] for name in order]

    call.outputs = order  # type: ignore[attr-defined]
    return call
