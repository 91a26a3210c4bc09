"""Which cluster is joined: one that answers, and no Ray is needed to find that out."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lenet_trt.run.on_ray.cluster import OWN_CLUSTER, cluster_address


@pytest.fixture
def closed() -> str:
    """An address where nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(autouse=True)
def left(no_ray_cluster: None) -> Path:
    """The file in which ``ray start`` leaves its address."""
    folder = Path(os.environ["RAY_TMPDIR"]) / "ray"
    folder.mkdir()
    return folder / "ray_current_cluster"


def test_without_a_cluster_one_is_started() -> None:
    assert cluster_address(None) == OWN_CLUSTER


def test_the_address_of_a_cluster_that_is_gone_is_not_waited_for(left: Path, closed: str) -> None:
    left.write_text(f"{closed}\n")
    assert cluster_address(None) == OWN_CLUSTER


def test_a_cluster_that_answers_is_joined(left: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = f"127.0.0.1:{server.getsockname()[1]}"
        left.write_text(f"{here}\n")
        assert cluster_address(None) == here
        assert cluster_address("auto") == here
        assert cluster_address(here) == here


def test_a_named_address_has_to_answer(left: Path, closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionError, match="refused"):
        cluster_address(closed)
    with pytest.raises(ConnectionError, match="none was started"):
        cluster_address("auto")
    monkeypatch.setenv("RAY_ADDRESS", closed)
    with pytest.raises(ConnectionError, match="refused"):
        cluster_address(None)


@pytest.mark.parametrize("address", ["local", "ray://somewhere:10001"])
def test_other_addresses_are_for_ray_to_judge(address: str) -> None:
    assert cluster_address(address) == address
