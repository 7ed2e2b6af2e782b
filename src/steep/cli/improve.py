"""``steep improve``: re-train the head of a trained network, let held-out data choose, and prove the gain."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli import options
from steep.cli.printing import aside, finish, one_line, table_of
from steep.exceptions import InputError, InputTypeError, StorageError

if TYPE_CHECKING:
    from steep.nn import Improvement

EXAMPLE = "steep improve model:network --train train.npz --validation val.npz"
_INPUTS, _LABELS = ("X", "x", "inputs"), ("y", "labels", "label", "target")

_NETWORK = "Your trained network, or a function without arguments that returns it."
_UNSEEN = "NPZ with X and y it has not seen."
_SCORES = (
    "Score that decides; may be repeated, the first one decides: accuracy, worst_group_accuracy, balanced_accuracy, "
    "neg_log_loss, worst_decile, or any scorer of scikit-learn's."
)
_GROUPS = "Array of the validation NPZ that holds the group of each sample."
_TASKS = "What the head is for: auto, multiclass, binary, multilabel or regression."
_LOADED = "State_dict to load into the network first, as .safetensors."


def improve_command(
    network: Annotated[str, typer.Argument(metavar="MODULE:NETWORK", show_default=False, help=_NETWORK)],
    train: Annotated[
        Path, typer.Option("--train", help="NPZ with arrays X and y the network was trained on.", show_default=False)
    ],
    validation: Annotated[Path, typer.Option("--validation", help=_UNSEEN, show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the improved network's state_dict.")] = Path(
        "improved.safetensors"
    ),
    weights: Annotated[Path | None, typer.Option("--weights", help=_LOADED)] = None,
    scoring: Annotated[list[str] | None, typer.Option("--scoring", help=_SCORES)] = None,
    groups: Annotated[str | None, typer.Option("--groups", help=_GROUPS)] = None,
    task: Annotated[str, typer.Option("--task", help=_TASKS)] = "auto",
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Re-train the head of a network on weighted features, for the score that counts.

    The original head is one of the candidates, and held-out data choose. Your network is not changed; the
    file holds the state_dict of the chosen one, to be loaded with safetensors.torch.load_file.
    """
    if output.suffix != ".safetensors":
        raise InputError(f"--output must end in .safetensors, for example improved.safetensors; got {output}")
    inputs = [train, validation, *([] if weights is None else [weights])]
    options.check_destination(output, inputs=inputs, force=force)
    training, held_out = load_arrays(train, "--train"), load_arrays(validation, "--validation")
    data = [samples_of(train, training), samples_of(validation, held_out)]
    if groups is not None and groups not in held_out:
        raise InputError(
            f"{validation} holds {', '.join(held_out)} and no {groups!r}; pass --groups with one of these names"
        )
    from steep.nn import improve

    with aside(network):
        model = load_network(network, weights)
        result = improve(
            model, *(_as_wanted(samples, model) for samples in data), scoring=scoring or None,
            groups=None if groups is None else held_out[groups], task=task, random_state=seed,  # type: ignore[arg-type]
        )  # fmt: skip
    result.save(output)
    figures = _figures(result) | {"network": network, "output": output}
    finish(figures, _lines(result, output), as_json=as_json)


def load_arrays(path: Path, option: str = "--train") -> dict[str, Any]:
    """The arrays of an NPZ file by name; nothing in the file is ever executed."""
    import numpy as np

    if path.suffix.lower() not in (".npz", ""):
        raise InputError(
            f"{option} {path} is not an .npz file; expected arrays X and y saved by numpy.savez('train.npz', X=X, y=y)"
        )
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return dict(archive)
    except Exception as error:  # NumPy and zipfile raise many kinds for files that are damaged or encrypted
        reason = getattr(error, "strerror", None) or one_line(error)
        raise StorageError(
            f"{path} cannot be read ({reason}); expected an .npz of plain arrays; save only numbers and text"
        ) from error


def samples_of(path: Path, arrays: dict[str, Any]) -> tuple[Any, Any]:
    """Inputs and labels among the arrays of a file."""
    found = [next((arrays[name] for name in names if name in arrays), None) for names in (_INPUTS, _LABELS)]
    if found[0] is None or found[1] is None:
        raise InputError(
            f"{path} holds {', '.join(arrays) or 'no arrays'}; expected X and y; save them under these names"
        )
    return found[0], found[1]


def load_network(text: str, weights: Path | None) -> Any:
    """The network behind ``module:name``, with the weights of a file if there is one."""
    model = options.load_target(text)
    wanted = "expected a torch network, or a function without arguments that returns it"
    if isinstance(model, type) or (callable(model) and not hasattr(model, "state_dict")):
        try:
            model = model()
        except TypeError as error:
            raise InputTypeError(f"{text} cannot be called without arguments ({error}); {wanted}") from error
    if not hasattr(model, "state_dict"):
        raise InputTypeError(f"{text} is a {type(model).__name__}; {wanted}")
    if weights is None:
        return model
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    try:
        load_model(model, weights)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise InputError(
            f"--weights {weights} does not fit {text} ({one_line(error)[:300]}); expected its own state_dict as "
            ".safetensors; save it with safetensors.torch.save_model"
        ) from error
    return model


def _as_wanted(samples: tuple[Any, Any], model: Any) -> tuple[Any, Any]:
    """Inputs in the precision of the network: NumPy's floats are double, a network's are usually not."""
    X, y = samples
    kinds = {str(parameter.dtype).removeprefix("torch.") for parameter in model.parameters()}
    wanted = next((kind for kind in ("float32", "float64") if kind in kinds), None)
    return (X.astype(wanted) if X.dtype.kind == "f" and wanted is not None else X), y


def _figures(result: Improvement) -> dict[str, Any]:
    gain = result.verdict.interval
    return {
        "verdict": str(result.verdict), "unit": result.verdict.unit, "gain": gain.mean,
        "gain_interval": [gain.low, gain.high], "rescored": result.rescored,
        "chosen": asdict(result.chosen),
        "calibration": None if result.calibration is None else result.calibration.to_dict("index"),
        "table": result.table.reset_index(names="head").to_dict("records"),
    }  # fmt: skip


def _lines(result: Improvement, output: Path) -> list[str]:
    columns = [str(result.table.columns[0]), "gain", "gain_low", "gain_high"]
    rows = result.table[columns].reset_index().itertuples(index=False)
    return [
        str(result.verdict),
        table_of(["head", columns[0], "gain", "from", "to"], rows),
        f"{output}: the network with the chosen head",
    ]
