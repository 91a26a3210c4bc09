"""A kernel may be launched early only where it reads nothing but weights before it waits, whatever its threads do."""

from __future__ import annotations

import pytest

from lenet_trt.cuda.waits import waits_before_memory

WAIT = "griddepcontrol.wait;"
X, W = "ld.param.u64 %rd1, [k_param_0];", "ld.param.u64 %rd2, [k_param_1];"
FURTHER = (
    "ld.param.u32 %r9, [k_param_2]; mul.wide.s32 %rd8, %r9, 2; add.s64 %rd3, %rd2, %rd8; cvta.to.global.u64 %rd4, %rd3;"
)
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [{}], 64, [%r2];"


def waits(*lines: str) -> bool:
    body = "\n\t".join(lines)
    return waits_before_memory(f"\t.reg .b64 \t%rd<9>;\n\t{body}\n\tret;\n", {"k_param_1"})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"{X}\n\tst.shared.u32 [%r1], %r2;\n\t{WAIT}\n\tld.f32 %f1, [%rd1];", True),
        (f"ld.global.nc.f32 %f1, [%rd1];\n\t{WAIT}", False),
        (f"@%p1 st.f32 [%rd1], %f1;\n\t{WAIT}", False),
        (f"cp.async.ca.shared.global [%r1], [%rd1], 16;\n\t{WAIT}", False),
        (f"{{ .reg .f32 f; ld.global.f32 f, [%rd1]; }}\n\t{WAIT}", False),
        (f"discard.global.L2 [%rd1], 128;\n\t{WAIT}", False),
        (f"prefetchu.L1 [%rd1];\n\t{WAIT}", False),
        (f"prefetch.tensormap [%rd1];\n\t{WAIT}", True),
        (f"@%p1 {WAIT}\n\tld.f32 %f1, [%rd1];", False),
        ("ld.global.f32 %f1, [%rd1];", False),
        ("", False),
        (f'.loc\t1 20 3\n\t.pragma "nounroll";\n\t{WAIT}', True),
        (f"\t// ld.global.f32 %f1, [%rd1];\n\t{WAIT}", True),
        (f"not PTX at all!\n\t{WAIT}", False),
    ],
)
def test_a_kernel_waits_where_no_memory_is_touched_before(body: str, expected: bool) -> None:
    assert waits(body) == expected


def test_every_way_through_a_kernel_has_to_wait() -> None:
    there, end = "$L__BB0_2:", "$L__BB0_3:"
    both = ("@%p1 bra $L__BB0_2;", WAIT, "bra.uni $L__BB0_3;", there, "mov.u32 %r1, 0;")
    assert waits(*both, WAIT, end, "ld.f32 %f1, [%rd1];")
    assert not waits(*both, end, "ld.f32 %f1, [%rd1];")
    assert not waits(*both, "ld.f32 %f1, [%rd1];", WAIT, end)
    assert not waits("@%p1 ret;", WAIT)  # its thread would end first
    assert not waits("@%p1 bra $L__BB0_2;", WAIT, "ret;", there)
    assert not waits("@%p1 bra $L__BB0_9;", WAIT)  # a label that is not there
    # What the text has before the wait runs after it.
    assert waits("bra.uni $L__BB0_2;", "$L__BB0_1:", "ld.f32 %f1, [%rd1];", "ret;", there, WAIT, "bra.uni $L__BB0_1;")
    # Loops, and two labels of one name in inline assembly.
    again = "{ .reg .pred done; AGAIN: mbarrier.try_wait.shared.b64 done, [%r1], %r2; @!done bra AGAIN; }"
    assert waits(again, "$L__BB0_1:", "@%p1 bra $L__BB0_1;", again, WAIT)


@pytest.mark.parametrize(
    ("copied", "expected"),
    [
        ("%rd2", True),
        ("%rd4", True),  # further in the weights
        ("%rd1", False),  # x
        ("%rd5", False),  # of nobody knows where
    ],
)
def test_weights_may_be_read_before(copied: str, expected: bool) -> None:
    for reads in (
        BULK.format(copied),
        f"cp.async.cg.shared.global [%r1], [{copied}], 16; cp.async.commit_group;",
        f"ld.global.nc.v4.u32 {{%r1, %r2, %r3, %r4}}, [{copied}+16];",
    ):
        assert waits(X, W, FURTHER, reads, WAIT) == expected
        assert waits(X, W, FURTHER, f"@%p1 {reads}", WAIT) == expected
        assert waits(X, W, FURTHER, WAIT, reads)


def test_an_address_that_may_be_of_x_is_not_one_of_weights() -> None:
    assert not waits(X, W, "selp.b64 %rd3, %rd1, %rd2, %p1;", BULK.format("%rd3"), WAIT)
    # The order of the text does not matter: a loop may come back.
    assert not waits(X, W, "mov.u64 %rd3, %rd2;", BULK.format("%rd3"), WAIT, "mov.u64 %rd3, %rd1;")
    assert not waits(X, W, "add.s64 %rd3, %rd2, %rd1;", BULK.format("%rd3"), WAIT)


def test_weights_are_not_written_before() -> None:
    for writes in (
        "st.global.u32 [%rd2], %r1;",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 64;",
        "red.add.u32 [%rd2], 1;",
    ):
        assert not waits(W, writes, WAIT)


def test_boxes_of_tensor_maps_wait() -> None:
    box = (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd7, {%r3, %r4}], [%r2];"
    )
    assert not waits("mov.b64 %rd7, k_param_5;", box, WAIT)
    assert waits("mov.b64 %rd7, k_param_5;", WAIT, box)
