"""Errors that end a command."""


class UsageError(Exception):
    """The command cannot be done as it was given; says why in one sentence."""


class RunError(Exception):
    """A training or an evaluation has failed; says why in one sentence."""
