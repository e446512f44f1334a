from .env import Swarm

__all__ = ["Swarm"]
