"""Arrange the weights of ``lenet5_int8`` as its tensor-core products read them, and its scales as it multiplies.

The fuse step does this once. ``weights`` has pieces of 512 bytes ("quads"): a warp's lane reads 16 bytes of a quad at
once, which are four registers of an operand. ``numbers`` has first what the kernel multiplies and adds, then the scales
and biases as ONNX has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.export.geometry import parameter_shapes

Array = NDArray[Any]

LANES, REGISTERS, BYTES = 32, 4, 4
QUAD = LANES * REGISTERS * BYTES
LAYERS = ("conv1", "conv2", "fc1", "fc2", "fc3")
SCALES = ("x_scale", "pool1_scale", "features_scale", "hidden1_scale", "hidden2_scale")  # of each layer's input
SHAPES = {f"{layer}_weight": parameter_shapes()[f"{layer}.weight"] for layer in LAYERS}
CHANNELS = {layer: SHAPES[f"{layer}_weight"][0] for layer in LAYERS}
FILTER = 5
# A row of a linear layer's product has 32 inputs, a tile 16 outputs.
STEP, TILE = 32, 16
LINEAR_TILES = {"fc1": (8, 8), "fc2": (6, 4), "fc3": (1, 3)}  # of outputs, of inputs
CONV1_QUADS, CONV2_QUADS = 5, 10
CONV1_MAP_CHANNEL = ((0, 1, 2), (4, 5, 3))  # of half and column tile: two that a lane stores at once, and one


def conv1_sources() -> Array:
    """Return for each byte of conv1's quads the position in its weights, or -1 for a zero.

    A register of lane (g, t) holds, for column g of a column tile, four pixels of a row of a window of 6 x 8 pixels:
    columns 4 (t % 2) and on. Column g is output g % 4 of the row, in channel ``CONV1_MAP_CHANNEL[g // 4][tile]``; the
    output's row is ``dy``. Parts 0 and 1, the rows 1 to 4 that both dy need, are a product of k = 32; part 2, row 0 or
    5, is one of k = 16. First the pairs of parts 0 and 1, then the single registers of part 2.
    """
    sources = np.full((CONV1_QUADS, LANES, REGISTERS, BYTES), -1)
    for dy, tile, part, lane, byte in np.ndindex(2, 3, 3, LANES, BYTES):
        product = dy * 3 + tile
        register = 12 + product if part == 2 else 2 * product + part
        column, t = divmod(lane, 4)
        row = (1 + t // 2, 3 + t // 2, 5 * (t // 2))[part]
        ky = row - dy
        kx = 4 * (t % 2) + byte - column % 4
        if 0 <= ky < FILTER and 0 <= kx < FILTER:
            channel = CONV1_MAP_CHANNEL[column // 4][tile]
            sources[register // 4, lane, register % 4, byte] = (channel * FILTER + ky) * FILTER + kx
    return sources


def conv2_sources() -> Array:
    """Return the same for conv2: register ``(ky * 2 + dx) * 4 + part`` is part of a 16 x 32 operand.

    Rows are channels. A row of inputs has six bytes a pixel; the words of four bytes that a lane holds are, for the
    left output (dx = 0), words t and t + 4 of it, and for the right one words t + 4 and t, where 8 stands for 0.
    """
    channels_in = SHAPES["conv2_weight"][1]
    sources = np.full((CONV2_QUADS, LANES, REGISTERS, BYTES), -1)
    for ky, dx, part, lane, byte in np.ndindex(FILTER, 2, REGISTERS, LANES, BYTES):
        row, t = divmod(lane, 4)
        words = (t, t + 4) if dx == 0 else (t + 4, t or 8)
        pixel, channel = divmod(4 * words[part // 2] + byte, channels_in)
        kx = pixel - dx
        if 0 <= kx < FILTER:
            out = row + 8 * (part % 2)
            sources[ky * 2 + dx, lane, part, byte] = ((out * channels_in + channel) * FILTER + ky) * FILTER + kx
    return sources


def linear(matrix: Array, layer: str) -> Array:
    """Return the quads [tile][step] of a linear layer's matrix, padded by zeros: operands of 16 outputs x 32 inputs."""
    tiles, steps = LINEAR_TILES[layer]
    padded = np.zeros((tiles * TILE, steps * STEP), np.int8)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    # [tile][upper half][g] x [step][right half][t][byte] -> [tile][step][g][t][right][upper][byte]
    return padded.reshape(tiles, 2, 8, steps, 2, 4, BYTES).transpose(0, 3, 2, 5, 4, 1, 6).reshape(-1)


def pack(plain: Mapping[str, Array]) -> dict[str, Array]:
    """Make ``weights`` and ``numbers`` from the weights, scales and biases as ONNX has them."""
    pieces = [
        np.append(plain[f"{layer}_weight"].reshape(-1), np.int8(0))[sources.reshape(-1)]
        for layer, sources in (("conv1", conv1_sources()), ("conv2", conv2_sources()))
    ]
    pieces += [linear(plain[f"{layer}_weight"], layer) for layer in LINEAR_TILES]
    numbers = [np.array([plain["x_scale"], 1 / np.float32(plain["x_scale"])], np.float32)]
    for layer in LAYERS:
        factor, addend = folded(plain, layer)
        pairs = np.zeros((padded_channels(layer), 2), np.float32)
        pairs[: len(factor)] = np.stack([factor, addend], axis=1)
        numbers.append(pairs.reshape(-1))
    numbers += [np.reshape(plain[name], -1) for name in plain_numbers()]
    return {"weights": np.concatenate(pieces).astype(np.int8), "numbers": np.concatenate(numbers).astype(np.float32)}


def folded(plain: Mapping[str, Array], layer: str) -> tuple[Array, Array]:
    """Return what a layer's integer sums are multiplied by, and what is added, to give the next layer's integers.

    For the last layer they give the logits. All arithmetic is float32, an operation at a time.
    """
    position = LAYERS.index(layer)
    factor = np.float32(plain[SCALES[position]]) * plain[f"{layer}_scale"].astype(np.float32)
    addend = plain[f"{layer}_bias"].astype(np.float32)
    if position + 1 == len(LAYERS):
        return factor, addend
    step = np.float32(plain[SCALES[position + 1]])
    return factor / step, addend / step


def padded_channels(layer: str) -> int:
    """Return how many pairs of numbers a layer has: a whole number of tiles, the last ones zeros."""
    return CHANNELS[layer] if layer not in LINEAR_TILES else LINEAR_TILES[layer][0] * TILE


def plain_numbers() -> dict[str, int]:
    """Return the scales and biases in their order behind the pairs, and how many numbers each has (0: a scalar)."""
    sizes = dict.fromkeys(SCALES, 0)
    for layer in LAYERS:
        sizes |= {f"{layer}_scale": CHANNELS[layer], f"{layer}_bias": CHANNELS[layer]}
    return sizes


QUADS = CONV1_QUADS + CONV2_QUADS + sum(tiles * steps for tiles, steps in LINEAR_TILES.values())
PAIR_NUMBERS = 2 + 2 * sum(map(padded_channels, LAYERS))
NUMBERS = PAIR_NUMBERS + sum(size or 1 for size in plain_numbers().values())


def unpack(op: Any, packed: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Write the ONNX nodes that give the plain weights back."""
    weights, numbers = packed["weights"], packed["numbers"]
    values = {}
    begin = 0
    for layer, sources in (("conv1", conv1_sources()), ("conv2", conv2_sources())):
        name = f"{layer}_weight"
        positions = np.full(int(np.prod(shapes[name])) + 1, -1)
        flat = sources.reshape(-1)
        positions[flat[::-1]] = begin + np.arange(len(flat))[::-1]  # the first place of each
        found = op.Gather(weights, op.constant(positions[:-1].reshape(shapes[name]).astype(np.int32)))
        values[name] = found
        begin += len(flat)
    for layer, (tiles, steps) in LINEAR_TILES.items():
        name = f"{layer}_weight"
        end = begin + tiles * steps * QUAD
        quads = op.Reshape(op.Slice(weights, op.ints(begin), op.ints(end)), op.ints(tiles, steps, 8, 4, 2, 2, BYTES))
        padded = op.Reshape(op.Transpose(quads, perm=[0, 5, 2, 1, 4, 3, 6]), op.ints(tiles * TILE, steps * STEP))
        values[name] = op.Slice(padded, op.ints(0, 0), op.ints(*shapes[name]))
        begin = end
    begin = PAIR_NUMBERS
    for name, size in plain_numbers().items():
        if size:
            values[name] = op.Slice(numbers, op.ints(begin), op.ints(begin + size))
        else:
            values[name] = op.Gather(numbers, op.constant(np.array(begin, np.int64)))
        begin += size or 1
    return values
