"""Find kernels that take long and are far from what the hardware can do, and name the fault."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from lenet_trt.floors.floor import arithmetic_us, memory_us
from lenet_trt.trace.accounting.names import architecture, is_gemm, uses_tensor_cores
from lenet_trt.trace.findings.inquiry import Finding, Inquiry
from lenet_trt.trace.kernel_names import short_name

if TYPE_CHECKING:
    from lenet_trt.floors.floor import Ceilings
    from lenet_trt.floors.work import NodeWork
    from lenet_trt.trace.ledger import LedgerRow

# A kernel is far from its roof when it takes this many times the floor. FAR is for the kinds that name a fault; the
# other number is for the kind that names none: good kernels of small networks take about 3 times a floor that counts
# no latency.
FAR = 2.0
_VERY_FAR = 4.0
_MANY_LAUNCHES = 10
# Operations per element read or written: a product of matrix and vector has 2, a product with two columns has 4.
_GEMV_OPERATIONS = 2.5
_PRODUCTS = ("MatMul", "Gemm", "FusedMatMul")
_NARROW = {"fp16": 2, "bf16": 2, "fp16_fma": 2, "bf16_fma": 2}


def far_kernels(inquiry: Inquiry) -> Iterator[Finding]:
    """Yield one finding for each node whose kernels are not small and far from the roof, of the most specific kind."""
    if inquiry.ceilings is None:
        return
    for row in inquiry.ledger.rows:
        far = row.roof_us is not None and row.terms.kernel_us >= FAR * row.roof_us
        small = row.longest_us <= inquiry.small_us
        if not far or small or not inquiry.notable(inquiry.left("inefficiency_us", row.node)):
            continue
        faults = [fault for kind in _FAULTS if (fault := kind(inquiry, row, inquiry.ceilings)) is not None]
        if not faults:
            continue
        first, *others = faults
        claimed = inquiry.claim("inefficiency_us", {row.node: first.recoverable_us})
        own = _own_reformats(inquiry, row)
        if own:
            claimed += inquiry.claim("copies_us", {row.node: own})
        if inquiry.notable(claimed):
            evidence = (*_figures(row), *first.evidence, *(f"also: {line}" for o in others for line in o.evidence))
            if own:
                evidence += (f"{own:,.1f} us more to put data into the layout that this kernel needs",)
            yield Finding(first.kind, first.title, row.node, claimed, evidence, first.advice)


def gemv_as_gemm(inquiry: Inquiry, row: LedgerRow, ceilings: Ceilings) -> Finding | None:
    """Find a product of matrix and vector that a kernel for two matrices computes: most of its tile is unused."""
    product = _product(inquiry, row)
    kernel = next((name for name in row.kernels if is_gemm(name)), None)
    if product is None or kernel is None:
        return None
    elements = product.work.total_bytes / _NARROW.get(product.arithmetic, 4)
    if product.work.flops > _GEMV_OPERATIONS * elements:
        return None
    return Finding(
        "gemv_as_gemm",
        f"{_name(row)}: a product of matrix and vector runs as one of two matrices",
        row.node,
        row.terms.inefficiency_us,
        (
            f"{product.work.flops / elements:.1f} operations per element, so reading them takes the time; the kernel "
            f"{short_name(kernel)} computes tiles of several columns where there is one column",
        ),
        "take a kernel that reads each row once and adds up in registers: "
        + _plugin_or(inquiry, row, "write it as a multiply and a sum"),
    )


def tensor_cores_unused(inquiry: Inquiry, row: LedgerRow, ceilings: Ceilings) -> Finding | None:
    """Find a product whose type tensor cores take, computed without them and limited by arithmetic."""
    product = _product(inquiry, row, ("Conv",))
    if product is None or product.arithmetic not in ("fp16", "bf16", "tf32"):
        return None
    plain = next((name for name in row.kernels if uses_tensor_cores(name) is False), None)
    rate = ceilings.flop_per_s.get(product.arithmetic)
    if plain is None or rate is None:
        return None
    without = arithmetic_us(product.work, "fp32", ceilings)
    if without <= memory_us(product.work, ceilings):
        return None
    return Finding(
        "tensor_cores_unused",
        f"{_name(row)}: computed without tensor cores, which its type {product.arithmetic} allows",
        row.node,
        row.terms.inefficiency_us,
        (
            f"{short_name(plain)} multiplies without tensor cores: {without:,.1f} us at this GPU's best, and "
            f"{arithmetic_us(product.work, product.arithmetic, ceilings):,.1f} us with them",
        ),
        _plugin_or(inquiry, row, "make the inner and outer sizes multiples of 8 (16 bytes)"),
    )


def older_architecture(inquiry: Inquiry, row: LedgerRow, ceilings: Ceilings) -> Finding | None:
    """Find a kernel for an older GPU that is very far from its roof, where one of our kernels could replace it.

    Libraries use kernels of an earlier architecture on purpose, such as sm_80 kernels on Ada; most of them are good.
    """
    sm, kernel = inquiry.sm, inquiry.replacement(row)
    made_for = {name: made for name in row.kernels if (made := architecture(name)) is not None}
    older = {name: made for name, made in made_for.items() if sm is not None and made < sm}
    if not older or sm is None or kernel is None or not _is_very_far(row):
        return None
    name, made = next(iter(older.items()))
    return Finding(
        "older_architecture",
        f"{_name(row)}: the kernel is made for sm_{made} and the GPU is sm_{sm}",
        row.node,
        row.terms.inefficiency_us,
        (f"{short_name(name)} is built for sm_{made}",),
        f"take a kernel made for this GPU: the plugin {kernel} computes this node, and lenet-trt optimize measures it",
    )


def batch_too_small(inquiry: Inquiry, row: LedgerRow, ceilings: Ceilings) -> Finding | None:
    """Find kernels that take long on fewer blocks than there are multiprocessors."""
    blocks = [
        math.prod(activity.grid)
        for activities in inquiry.activities
        for activity in activities
        if activity.node == row.node and activity.grid and activity.name == row.kernels[0]
    ]
    if not blocks or not ceilings.multiprocessors:
        return None
    typical = median(blocks)
    if typical >= ceilings.multiprocessors:
        return None
    idle = 1 - typical / ceilings.multiprocessors
    return Finding(
        "batch_too_small",
        f"{_name(row)}: too little work at once for this GPU",
        row.node,
        min(row.terms.kernel_us * idle, row.terms.inefficiency_us),
        (f"{typical:,.0f} blocks on {ceilings.multiprocessors} multiprocessors: {idle:.0%} of the GPU is idle",),
        "give it more images at a time (each costs almost nothing until the GPU is full), or take a kernel that "
        "splits the sum among blocks",
    )


def far_from_roof(inquiry: Inquiry, row: LedgerRow, ceilings: Ceilings) -> Finding | None:
    """Find a kernel that is very far from its roof, for any reason."""
    lost = row.terms.inefficiency_us
    if not _is_very_far(row) or lost < _MANY_LAUNCHES * inquiry.launch_us:
        return None
    return Finding(
        "far_from_roof",
        f"{_name(row)}: the kernel is far from what the hardware can do",
        row.node,
        lost,
        (),
        _plugin_or(inquiry, row, "ncu --set full says what limits the kernel"),
    )


def _is_very_far(row: LedgerRow) -> bool:
    assert row.roof_us is not None
    return row.terms.kernel_us >= _VERY_FAR * row.roof_us


def _plugin_or(inquiry: Inquiry, row: LedgerRow, otherwise: str) -> str:
    """Return advice: the kernel of ours that could replace the node, where there is one, and what else helps."""
    kernel = inquiry.replacement(row)
    plugin = f"the plugin {kernel} computes this node, and lenet-trt optimize measures it"
    return f"{plugin}; {otherwise}" if kernel else otherwise


_FAULTS = (gemv_as_gemm, tensor_cores_unused, older_architecture, batch_too_small, far_from_roof)


def _product(inquiry: Inquiry, row: LedgerRow, more: tuple[str, ...] = ()) -> NodeWork | None:
    """Return the matrix product of a row; of several, the one with most operations."""
    found = [entry for entry in inquiry.members(row) if entry.op in (*_PRODUCTS, *more)]
    return max(found, key=lambda entry: entry.work.flops) if found else None


def _own_reformats(inquiry: Inquiry, row: LedgerRow) -> float:
    """Return the time of the node's kernels that only copy: the price of the kernel that was chosen."""
    if row.node is None:
        return 0.0
    return sum(
        exposed[id(entry)]
        for activities, exposed in zip(inquiry.activities, inquiry.exposed, strict=True)
        for entry in activities
        if inquiry.slicer.owner(entry.node) == row.node and inquiry.slicer.is_reformat(entry)
    ) / len(inquiry.used)


def _name(row: LedgerRow) -> str:
    return row.node if row.node is not None else "the network"


def _figures(row: LedgerRow) -> tuple[str, ...]:
    assert row.roof_us is not None
    taken = row.terms.kernel_us
    times = f", {taken / row.roof_us:,.1f} times that" if row.roof_us else ""
    kernel = f" ({short_name(row.kernels[0])})" if row.kernels else ""
    needed = f"{row.roof_us:,.1f}" if row.roof_us >= 1 else f"{row.roof_us:.2g}"
    calls = f" in {row.launches:.0f} launches" if row.launches >= 2 else ""
    return (f"kernel time {taken:,.1f} us{calls}{kernel}; the hardware needs {needed} us{times}",)
