from .env import CartPole, CartPoleContinuous

__all__ = ["CartPole", "CartPoleContinuous"]
