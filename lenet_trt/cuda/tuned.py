"""Say which variant runs a call on the GPU in use: what ``lenet-trt tune`` found for it, else what is declared.

Nothing is read where nothing was tuned, so that a program begins as fast as before.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING

from lenet_trt.cuda.driver import Context
from lenet_trt.cuda.machine import Machine, machine_of
from lenet_trt.errors import LenetTrtError, LenetTrtWarning
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.variants import Variant

if TYPE_CHECKING:
    from lenet_trt.kernel.choice import TunedChoice


def variant_for(bound: Bound, context: Context) -> Variant:
    """Return the variant that runs this call on the GPU in use: the tuned choice, else the declared one."""
    return bound.variant(context.sm, context.sizes, choices_for(bound.kernel, machine_of(context.device)))


@cache
def choices_for(kernel: Kernel, machine: Machine | None) -> tuple[TunedChoice, ...]:
    """Return the tuned choices of a kernel; they are read once in a process. A file that does not count is told of."""
    if machine is None:
        return ()
    path = machine.tuning_path(kernel.name)
    if not path.is_file():
        return ()
    from lenet_trt.cuda.tuning_file import read_tuning

    try:
        return read_tuning(path, kernel, machine).choices
    except LenetTrtError as error:
        warnings.warn(f"{error}. The declared choices of {kernel.name} hold until then", LenetTrtWarning, stacklevel=2)
        return ()
