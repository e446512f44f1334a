from .env import Ant

__all__ = ["Ant"]
