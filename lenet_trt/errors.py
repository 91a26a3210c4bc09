"""Define the errors that users see; each is printed without a traceback, and its class has the exit code."""

_PAGES = "https://github.com/lenet-trt/lenet-trt/blob/main/docs"


def documentation(name: str) -> str:
    """Return the address of a page of the documentation, which an installed package does not have, for messages."""
    return f"{_PAGES}/{name}.md"


class LenetTrtError(Exception):
    """Report a failure; the message says what failed, what was seen, what was wanted and how to fix it."""

    exit_code = 1


class LenetTrtWarning(RuntimeWarning):
    """Report what was done in another way than usual; the command line prints it in one line, as it prints errors."""


class UsageError(LenetTrtError):
    """Report a wrong call: an unknown value of an option, or options that contradict each other."""

    exit_code = 2
