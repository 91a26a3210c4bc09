"""A kernel may be launched early only where it reads nothing but weights before it waits."""

from __future__ import annotations

import pytest

from lenet_trt.cuda.waits import waits_before_memory

WAIT = "griddepcontrol.wait;"
X, W = "ld.param.u64 %rd1, [k_param_0];", "ld.param.u64 %rd2, [k_param_1];"
FURTHER = (
    "ld.param.u32 %r9, [k_param_2]; mul.wide.s32 %rd8, %r9, 2; add.s64 %rd3, %rd2, %rd8; cvta.to.global.u64 %rd4, %rd3;"
)
COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [{}], 64, [%r2];"


def waits(*lines: str) -> bool:
    body = "\n\t".join(lines)
    return waits_before_memory(f"\t.reg .b64 \t%rd<9>;\n\t{body}\n\tret;\n", {"k_param_1"})


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", True),
        ("ld.param.u64 %rd1, [x];\n\tst.shared.u32 [%r1], %r2;", True),
        ("ld.global.nc.f32 %f1, [%rd1];", False),
        ("@%p1 st.f32 [%rd1], %f1;", False),
        ("cp.async.ca.shared.global [%r1], [%rd1], 16;", False),
        ("{ .reg .f32 f; ld.global.f32 f, [%rd1]; }", False),
        ("discard.global.L2 [%rd1], 128;", False),
        ("prefetchu.L1 [%rd1];", False),
        ("prefetch.tensormap [%rd1];", True),
        ("call.uni f, ();", False),
        ('.loc\t1 20 3\n\t.pragma "nounroll";', True),
        (".loc\t1 20 3\n\tld.f32 %f1, [%rd1];", False),
        ("// ld.global.f32 %f1, [%rd1];", True),
        ("@%p1 ret;", False),  # its thread would end first
        ("@%p1", False),  # it waits where the predicate says so
        ("@%p1 bra $L__BB0_2;\n\tmov.u32 %r1, 0;\n$L__BB0_2:", True),
        ("@%p1 bra $L__BB0_2;", False),  # the label stands behind the wait
        ("$L__BB0_1:\n\t@%p1 bra $L__BB0_1;", True),
        ("$L__BB0_1:\n\tst.f32 [%rd1], %f1;", False),
        ("@%p1 bra $L__BB0_1;\n$L__BB0_1: ld.f32 %f1, [%rd1];", False),
    ],
)
def test_a_kernel_waits_where_no_memory_is_touched_before(before: str, expected: bool) -> None:
    assert waits(before, WAIT, "$L__BB0_9:\n\tld.f32 %f1, [%rd1];") == expected


def test_a_kernel_that_never_waits() -> None:
    assert not waits("mov.u32 %r1, 0;")
    assert not waits("")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("%rd2", True),
        ("%rd4", True),  # further in the weights
        ("%rd1", False),  # x
        ("%rd5", False),  # of nobody knows where
    ],
)
def test_weights_may_be_copied_before(address: str, expected: bool) -> None:
    copy = COPY.format(address)
    assert waits(X, W, FURTHER, copy, WAIT) == expected
    assert waits(X, W, FURTHER, f"@%p1 bra $L__BB0_2;\n\t{copy}\n$L__BB0_2:", WAIT) == expected
    assert waits(X, W, FURTHER, WAIT, copy)


@pytest.mark.parametrize("read", ["ld.global.cs.v4.u32 {{%r5,%r6,%r7,%r8}}, [{}];", "prefetch.global.L2 [{}+128];"])
@pytest.mark.parametrize(("address", "expected"), [("%rd2", True), ("%rd4", True), ("%rd1", False), ("%rd5", False)])
def test_weights_may_be_read_before(read: str, address: str, expected: bool) -> None:
    assert waits(X, W, FURTHER, f"@%p1 {read.format(address)}", WAIT) == expected


def test_what_weights_point_to_is_no_weight() -> None:
    assert not waits(X, W, "ld.global.u64 %rd6, [%rd2];", "ld.global.f32 %f1, [%rd6];", WAIT)
    assert not waits(X, W, "ld.global.u64 %rd1, [%rd2+8];", COPY.format("%rd1"), WAIT)


def test_an_address_that_may_be_of_x_is_not_one_of_weights() -> None:
    copy = COPY.format("%rd3")
    assert waits(X, W, "mov.u64 %rd3, %rd2;", copy, WAIT)
    assert not waits(X, W, "selp.b64 %rd3, %rd1, %rd2, %p1;", copy, WAIT)
    assert not waits(X, W, "add.s64 %rd3, %rd2, %rd1;", copy, WAIT)
    halves = "mov.b64 {%r3, %r4}, %rd1; cvt.u64.u32 %rd5, %r4; add.s64 %rd3, %rd2, %rd5;"
    assert not waits(X, W, halves, copy, WAIT)
    # The order of the text does not matter: a loop may come back.
    assert not waits(X, W, f"mov.u64 %rd3, %rd2;\n$L__BB0_1:\n\t{copy}\n\tmov.u64 %rd3, %rd1;", WAIT)


def test_weights_are_not_written_before() -> None:
    for touches in (
        "st.global.u32 [%rd2], %r1;",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 64;",
        "red.add.u32 [%rd2], 1;",
    ):
        assert not waits(W, touches, WAIT)


def test_boxes_of_tensor_maps_wait() -> None:
    box = COPY.replace("bulk", "bulk.tensor.2d").format("%rd7, {%r3, %r4}")
    assert not waits("mov.b64 %rd7, k_param_5;", box, WAIT)
    assert waits("mov.b64 %rd7, k_param_5;", WAIT, box)
