"""What steep takes from scikit-learn's private modules, in one place: a new release is checked here."""

from sklearn.utils import _safe_indexing as take_rows
from sklearn.utils.validation import _num_samples as count_samples

__all__ = ["count_samples", "take_rows"]
