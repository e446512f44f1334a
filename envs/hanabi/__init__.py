from .env import PRESETS, Hanabi, unpack_bits

__all__ = ["PRESETS", "Hanabi", "unpack_bits"]
