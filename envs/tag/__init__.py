from .continuous import TagContinuous
from .grid import TagGrid

__all__ = ["TagContinuous", "TagGrid"]
