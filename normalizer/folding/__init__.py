"""Facts -> transcript."""

from normalizer.folding.fold_run import fold

__all__ = ["fold"]
