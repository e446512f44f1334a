from .env import CartPole

__all__ = ["CartPole"]
