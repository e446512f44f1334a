"""Errors that end a command."""


class UsageError(Exception):
    """The command was given wrongly; the text is one sentence."""


class RunError(Exception):
    """A training or an evaluation has failed; the text is one sentence."""
