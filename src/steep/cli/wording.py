"""Messages of the library in the words of the shell: options of the command instead of Python arguments."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from steep.exceptions import SteepError

# What the library advises, and what does the same from a shell.
_WORDS = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"cv=\S+ cannot split these data \((.*)\); lower cv, or pass groups to fit",
         r"the rows cannot be split into folds (\1); pass more rows, or --groups with more groups"),
        (r"or pass groups to fit", "or pass --groups COLUMN"),
        (r"\btask='(\w+)'", r"--task \1"),
        (r"\bn_neighbors=(\S+?)(?=[\s;,.]|$)", r"-k \1"),
        (r"\bn_neighbors\b", "-k"),
        (r"\bweight_ratio=(\S+?)(?=[\s;,.]|$)", r"-m \1"),
        (r"\bweight_ratio\b", "-m"),
        (r"\bn_initial=", "--n-initial "),
        (r"\bn_runs=", "-n "),
        (r"\bn_runs\b", "-n"),
        (r"\bn_initial\b", "--n-initial"),
        (r"\bscoring=", "--scoring "),
        (r"\bmeasure=", "--measure "),
        (r"\bn_jobs=", "--jobs "),
        (r"\brandom_state=", "--seed "),
        (r"; (?:or )?pass embedding=[^;]*", ""),
        (r"; or leave embedding=\S+ for 'auto'", ""),
        (r", or pass pred_probs= or predictions=", ""),
        (r"; see failures\(\) of the design$",
         "; call the function at that point to see why, or leave it out of --bounds"),
        (r"; pass more data\b", "; add rows to the table"),
        (r"\bor pass more data\b", "or add rows to the table"),
        (r" to keep this quiet", " to hide this note"),
        (r"call suspects once for every column", "call the command once per column"),
        (r"which sample_weights cannot give it", "which is not fitted with -m"),
        (r"; use '\w+' with VarianceWeighted.*", "; leave out -m to let a model decide"),
        (r", or a callable of \(X, y\)", ""),
        (r", or None$", ""),
    )
)  # fmt: skip


def in_shell_words(text: str) -> str:
    """Replace what only Python users can do by what the command offers.

    Examples
    --------
    >>> in_shell_words("n_neighbors=50 needs at least 51 samples, got 40; lower n_neighbors or pass more data")
    '-k 50 needs at least 51 samples, got 40; lower -k or add rows to the table'
    >>> in_shell_words("pass task='regression' if they are quantities")
    'pass --task regression if they are quantities'
    """
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text


@contextmanager
def shell_words() -> Iterator[None]:
    """Raise the library's errors with the command's options in their text, and show each warning once."""
    seen: set[str] = set()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_once(message: Any, *place: Any, **further: Any) -> None:
            text = in_shell_words(str(message))
            if text not in seen:
                show(text, *place, **further)
            seen.add(text)

        warnings.showwarning = show_once
        try:
            yield
        except SteepError as error:
            said = in_shell_words(str(error))
            if said == str(error):
                raise
            raise type(error)(said) from error
