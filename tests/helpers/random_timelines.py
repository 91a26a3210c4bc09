"""Random timelines for property tests of the ledger and of findings."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from lenet_trt.trace.timeline import Activity, ApiCall, Iteration, Timeline

times = st.floats(0, 300, allow_nan=False).map(lambda us: round(us, 4))


happenings = st.lists(
    st.tuples(
        times,
        st.floats(0, 60).map(lambda us: round(us, 4)),
        st.sampled_from(["conv", "pool", "turn", None]),
        st.sampled_from(["kernel", "memcpy", "memset", "layer"]),
        st.sampled_from(["k", "nchwToNhwcKernel"]),
        st.one_of(st.none(), st.integers(0, 4)),
        st.one_of(st.none(), st.integers(0, 3)),
        st.integers(0, 2),
    ),
    max_size=24,
)


spans = st.lists(st.tuples(times, st.floats(0, 200).map(lambda us: round(us, 4))), min_size=1, max_size=6)


def random_timeline(happens: list[Any], inferences: list[Any], calls: list[Any]) -> Timeline:
    return Timeline(
        "hypothesis",
        iterations=tuple(Iteration(at, start, start + us) for at, (start, us) in enumerate(inferences)),
        activities=tuple(
            Activity(kind, name, start, start + us, stream, iteration, name_of_node, correlation)
            for start, us, name_of_node, kind, name, correlation, iteration, stream in happens
        ),
        api_calls=tuple(ApiCall("c", start, start + us, correlation=at) for at, (start, us) in enumerate(calls)),
    )
