import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def frame():
    """Columns of every kind, whole."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "x": rng.normal(size=60),
            "count": rng.integers(0, 5, size=60),
            "colour": rng.choice(["red", "green", "blue"], size=60),
            "day": pd.date_range("2025-01-01", periods=60, unit="us"),
            "kind": rng.choice(["a", "b"], size=60),
        }
    )
