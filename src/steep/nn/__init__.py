"""steep.nn: the only door to torch. Derivatives, heads and ensembles of PyTorch networks."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    from steep.exceptions import MissingExtraError

    raise MissingExtraError(
        f"steep.nn needs torch, which cannot be imported ({error}); run pip install steep[torch]"
    ) from error

from steep.nn.ensemble import Ensemble, train_ensemble

__all__ = ["Ensemble", "train_ensemble"]
