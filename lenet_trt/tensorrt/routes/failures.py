"""Keep errors in the Python code of a plugin, which TensorRT calls from C++ and only prints."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from lenet_trt.errors import LenetTrtError

_KEPT = 16

_failures: list[tuple[str, BaseException]] = []

_Callback = TypeVar("_Callback", bound=Callable[..., Any])


@contextmanager
def reporting() -> Iterator[None]:
    """Turn errors inside a plugin, which TensorRT only prints, into an error of the call around it.

    Raises:
        LenetTrtError: a plugin failed while the block ran; the message says which, where and why.
    """
    _failures.clear()
    try:
        yield
    except Exception as error:
        if not _failures:
            raise
        raise _report() from error
    if _failures:
        raise _report() from _failures[0][1]


def remembered(function: _Callback) -> _Callback:
    """Keep the exception of a callback, since TensorRT prints it to stderr and goes on with its own message."""

    @functools.wraps(function)
    def call(self: Any, *arguments: Any) -> Any:
        try:
            return function(self, *arguments)
        except BaseException as error:
            if len(_failures) < _KEPT:  # the first ones tell; a run that nobody watches may fail for ever
                _failures.append((f"{self.kernel.name} ({function.__name__})", error))
            raise

    return call  # type: ignore[return-value]


def _report() -> LenetTrtError:
    where, error = _failures[0]
    detail = str(error) if isinstance(error, LenetTrtError) else f"{type(error).__name__}: {error}"
    return LenetTrtError(f"the plugin {where} failed: {detail}")
