"""The version, apart so that setup can read it without importing torch."""

__version__ = "0.1.0"
