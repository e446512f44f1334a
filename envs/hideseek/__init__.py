from .env import HideSeek
from .level import Level

__all__ = ["HideSeek", "Level"]
