"""``steep improve``: re-train the head of a trained network, let held-out data choose, and prove the gain."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steep.cli.options import Force, Json, Report, Seed, check_destination, check_page, load_target, writer_of
from steep.cli.printing import aside, finish, one_line, table_of
from steep.exceptions import InputError, InputTypeError, StorageError

if TYPE_CHECKING:
    from steep.nn import Improvement

EXAMPLE = "steep improve model:network --train train.npz --validation val.npz"
_WEIGHTS = (".pt", ".pth", ".bin", ".ckpt", ".onnx", ".safetensors")
_INPUTS, _LABELS = ("X", "x", "inputs"), ("y", "labels", "label", "target")


_Network = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:NETWORK",
        show_default=False,
        help="Your trained network, or a function without arguments that returns it.",
    ),
]
_Train = Annotated[
    Path, typer.Option("--train", help="NPZ with arrays X and y the network was trained on.", show_default=False)
]
_Validation = Annotated[
    Path | None,
    typer.Option("--validation", help="NPZ with X and y it has not seen; without it the original head is kept."),
]
_Output = Annotated[Path, typer.Option("--output", "-o", help="File for the improved network's state_dict.")]
_Weights = Annotated[
    Path | None, typer.Option("--weights", help="State_dict to load into the network first, as .safetensors.")
]
_Scoring = Annotated[
    list[str] | None,
    typer.Option(
        "--scoring",
        help="Score that decides; may be repeated, the first one decides: accuracy, worst_group_accuracy, "
        "balanced_accuracy, neg_log_loss, worst_decile, or any scorer of scikit-learn's.",
    ),
]
_Groups = Annotated[
    str | None, typer.Option("--groups", help="Array of the validation NPZ that holds the group of each sample.")
]
_Reweighting = Annotated[
    Path | None, typer.Option("--reweighting", help="NPZ with X and y used for neither: heads are also fitted to it.")
]
_Measure = Annotated[
    list[str] | None, typer.Option("--measure", help="What the weights follow; may be repeated; default by the score.")
]
_Task = Annotated[
    str, typer.Option("--task", help="What the head is for: auto, multiclass, binary, multilabel or regression.")
]
_Head = Annotated[
    str | None, typer.Option("--head", help="Name of the last linear layer; default the last one that runs.")
]


def improve_command(
    network: _Network,
    train: _Train,
    validation: _Validation = None,
    output: _Output = Path("improved.safetensors"),
    weights: _Weights = None,
    scoring: _Scoring = None,
    groups: _Groups = None,
    reweighting: _Reweighting = None,
    measure: _Measure = None,
    task: _Task = "auto",
    head: _Head = None,
    seed: Seed = 0,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Re-train the head of a network on weighted features, for the score that counts.

    The original head is one of the candidates, and held-out data choose. Your network is not changed; the
    file holds the state_dict of the chosen one, to be loaded with safetensors.torch.load_file.
    """
    if output.suffix != ".safetensors":
        raise InputError(f"--output must end in .safetensors, for example improved.safetensors; got {output}")
    inputs = [path for path in (train, validation, reweighting, weights) if path is not None]
    check_destination(output, inputs=inputs, force=force)
    check_page(report, force=force)
    files = {
        option: (path, load_arrays(path, option))
        for option, path in (("--train", train), ("--validation", validation), ("--reweighting", reweighting))
        if path is not None
    }
    data = {option: samples_of(path, arrays) for option, (path, arrays) in files.items()}
    known = None
    if groups is not None:
        path, arrays = files.get("--validation", files["--train"])
        if groups not in arrays:
            raise InputError(
                f"{path} holds {', '.join(arrays)} and no {groups!r}; pass --groups with one of these names"
            )
        known = arrays[groups]
    from steep.nn import HeadSearch, improve, split

    with aside(network):
        model = load_network(network, weights)
        fitting = {option: _as_wanted(given, model) for option, given in data.items()}
        result = improve(
            split(model, head), fitting["--train"], fitting.get("--validation"),
            scoring=scoring or None, groups=known, reweighting=fitting.get("--reweighting"),
            search=HeadSearch(measure=measure or None), task=task, random_state=seed,  # type: ignore[arg-type]
        )  # fmt: skip
    result.save(output)
    if report is not None:
        writer_of("improvement_page")(report, result, title=f"Improvement of {network}")
    finish(_figures(result, network, output, report), _lines(result, output), as_json=as_json, report=report)


def load_arrays(path: Path, option: str = "--train") -> dict[str, Any]:
    """The arrays of an NPZ file by name; nothing in the file is ever executed."""
    import numpy as np

    if path.suffix.lower() not in (".npz", ""):
        raise InputError(
            f"{option} {path} is not an .npz file; expected arrays X and y saved by numpy.savez('train.npz', X=X, y=y)"
        )
    try:
        # Opened here, since NumPy leaves a file that is not an archive open.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not hasattr(archive, "files"):
                raise InputError(f"{path} holds one array; expected an .npz with several; save them with numpy.savez")
            return {name: archive[name] for name in archive.files}
    except InputError:
        raise
    except Exception as error:  # NumPy and zipfile raise many kinds for files that are damaged or encrypted
        reason = getattr(error, "strerror", None) or one_line(error)
        raise StorageError(
            f"{path} cannot be read ({reason}); expected an .npz of plain arrays; save only numbers and text"
        ) from error


def samples_of(path: Path, arrays: dict[str, Any]) -> tuple[Any, Any]:
    """Inputs and labels among the arrays of a file."""
    found = [next((name for name in names if name in arrays), None) for names in (_INPUTS, _LABELS)]
    if found[0] is None or found[1] is None:
        raise InputError(
            f"{path} holds {', '.join(arrays) or 'no arrays'}; expected X and y; save them under these names"
        )
    return arrays[found[0]], arrays[found[1]]


def load_network(text: str, weights: Path | None) -> Any:
    """The network behind ``module:name``, with the weights of a file if there is one."""
    if ":" not in text and text.lower().endswith(_WEIGHTS):
        raise InputError(
            f"{text} is a file of weights; expected a Python function that builds the network, as model.py:network; "
            "pass its weights with --weights as .safetensors"
        )
    model = load_target(text)
    if isinstance(model, type) or (callable(model) and not hasattr(model, "state_dict")):
        try:
            model = model()
        except TypeError as error:
            raise InputTypeError(
                f"{text} cannot be called without arguments ({error}); expected a network, or a function "
                "that returns it"
            ) from error
    if not hasattr(model, "state_dict"):
        raise InputTypeError(
            f"{text} is a {type(model).__name__}; expected a torch network, or a function that returns it"
        )
    if weights is None:
        return model
    if weights.suffix.lower() in _WEIGHTS[:-1]:
        raise InputError(
            f"--weights {weights} is not a .safetensors file; convert it with safetensors.torch.save_file("
            f"torch.load({str(weights)!r}, weights_only=True), {str(weights.with_suffix('.safetensors'))!r})"
        )
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    try:
        load_model(model, weights)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise InputError(
            f"--weights {weights} does not fit {text} ({' '.join(str(error).split())[:300]}); expected its own "
            "state_dict as .safetensors; save it with safetensors.torch.save_model"
        ) from error
    return model


def _as_wanted(data: tuple[Any, Any], model: Any) -> tuple[Any, Any]:
    """Inputs in the precision of the network: NumPy's floats are double, a network's are usually not."""
    X, y = data
    kinds = {str(parameter.dtype).removeprefix("torch.") for parameter in model.parameters()}
    wanted = next((kind for kind in ("float32", "float64") if kind in kinds), None)
    return (X.astype(wanted) if X.dtype.kind == "f" and wanted is not None else X), y


def _figures(result: Improvement, network: str, output: Path, report: Path | None) -> dict[str, Any]:
    gain = result.verdict.interval
    return {
        "network": network, "verdict": str(result.verdict), "unit": result.verdict.unit, "gain": gain.mean,
        "gain_interval": [gain.low, gain.high], "rescored": result.rescored,
        "advice": result.advice, "chosen": asdict(result.chosen),
        "calibration": None if result.calibration is None else result.calibration.to_dict("index"),
        "table": result.table.reset_index(names="head").to_dict("records"), "output": output, "report": report,
    }  # fmt: skip


def _lines(result: Improvement, output: Path) -> list[Any]:
    unit = str(result.table.columns[0])
    rows = [
        (str(name), float(row[unit]), float(row["gain"]), float(row["gain_low"]), float(row["gain_high"]))
        for name, row in result.table.iterrows()
    ]
    return [
        str(result.verdict),
        table_of(["head", unit, "gain", "from", "to"], rows),
        *([result.advice] if result.advice else []),
        f"{output}: the network with the chosen head",
    ]
