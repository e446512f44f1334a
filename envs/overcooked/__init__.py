from .env import Overcooked
from .layout import Layout, layout_names, read_layout

__all__ = ["Layout", "Overcooked", "layout_names", "read_layout"]
