"""The errors that users see: printed without a traceback, with the exit code that each class names."""


class LenetTrtError(Exception):
    """Something failed; the message says what, what was seen, what was wanted and how to fix it."""

    exit_code = 1


class UsageError(LenetTrtError):
    """The call itself was wrong (an unknown option value, options that contradict each other)."""

    exit_code = 2
