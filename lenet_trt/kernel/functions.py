"""Call the functions that a declaration brings; an exception in one becomes an error that names the function."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from lenet_trt.errors import LenetTrtError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def call_declared(
    kernel: str,
    what: str,
    function: Callable[Parameters, Result],
    *arguments: Parameters.args,
    **named: Parameters.kwargs,
) -> Result:
    """Call a function of a kernel's declaration; ``what`` is what people call it ("the reference").

    Raises:
        LenetTrtError: it raises; says what, and in which line.
    """
    try:
        return function(*arguments, **named)
    except LenetTrtError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].filename}, line {frames[-1].lineno}"
        raise LenetTrtError(f"{kernel}: {what} fails ({type(error).__name__}: {error}) in {where}: mend it") from error
