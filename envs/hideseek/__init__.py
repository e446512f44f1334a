from .env import HideSeek
from .level import Level
from .presets import PRESETS

__all__ = ["PRESETS", "HideSeek", "Level"]
