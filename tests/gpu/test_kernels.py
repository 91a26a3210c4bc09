"""Every kernel, every variant that this GPU runs, every type and attribute, over the declared examples.

What is checked is what ``lenet-trt check`` checks; the reference, sizes and tolerances are the declaration's.
"""

from __future__ import annotations

from functools import cache

import pytest

from declared_kernels import DECLARED, declared
from lenet_trt.check.gpu_checks import CHECKS, compile_calls, run_check
from lenet_trt.cuda.driver import current_context
from lenet_trt.cuda.gpus import gpus
from lenet_trt.kernel import registry
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.examples import ExampleCase, cases

# Made to use what few kernels of the toolkit do: packing, more than 48 KB of shared memory, workspace.
EXERCISE = declared("matmul_act_rowsum")
KERNELS = [*registry.kernels().values(), EXERCISE, *map(declared, DECLARED)]


def runnable(kernel: Kernel) -> list[ExampleCase]:
    return list(cases(kernel, current_context().sm)) if gpus().devices else []


@cache
def compiled(kernel: Kernel) -> list[ExampleCase]:
    calls = runnable(kernel)
    compile_calls(calls, current_context().sm)
    return calls


# A kernel by all checks, then the next one: processes side by side take runs of tests, and compile different kernels.
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_conformance(kernel: Kernel, check: str) -> None:
    problems = {str(case): run_check(check, case) for case in compiled(kernel)}
    assert problems
    assert {name: problem for name, problem in problems.items() if problem} == {}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_portable_variant_of_every_type_runs_here_too(kernel: Kernel) -> None:
    portable = {case.bound.types.name for case in runnable(kernel) if case.variant.min_sm == 75}
    assert portable == {types.name for types in kernel.types}
