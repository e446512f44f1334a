from .env import Atari

__all__ = ["Atari"]
