"""A page that shows worlds of a running batch, and steers it; ``python -m torch_batchsim.watch``."""

from .messages import Refused
from .viewer import Viewer

__all__ = ["Refused", "Viewer"]
