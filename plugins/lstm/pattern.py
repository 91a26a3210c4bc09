"""Define the nodes that ``lstm`` replaces: an LSTM with biases and first states, in each direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lenet_trt.pattern import Pattern

DIRECTIONS = ("forward", "reverse", "bidirectional")


def _layer(direction: str) -> Callable[..., Any]:
    def layer(op: Any, x: Any, w: Any, r: Any, b: Any, h0: Any, c0: Any, hidden_size: Any) -> Any:
        # ONNX has the lengths of the sequences between the biases and the states; here all are whole.
        named = {} if direction == "forward" else {"direction": direction}
        y, y_h, y_c = op.LSTM(x, w, r, b, None, h0, c0, hidden_size=hidden_size, **named, _outputs=3)
        return y, y_h, y_c

    return layer


PATTERNS = tuple(Pattern(_layer(direction), {"direction": direction}) for direction in DIRECTIONS)
