"""List the rules that bring the graphs of exporters into the normal form (see ``normal_form.py``).

Source: what torch.onnx.export (both exporters), tf2onnx and onnx-simplifier emit for convolutional networks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lenet_trt.fuse.added_numbers import number_behind_new_axis
from lenet_trt.fuse.casts import layer_between_casts, needless_casts
from lenet_trt.fuse.channel_norms import norm_of_channels
from lenet_trt.fuse.cleanings import defaults, empty_parts, factors_of_one, flattening, no_ops, zero_points
from lenet_trt.fuse.convolution_layers import (
    activation_before_pooling,
    convolution,
    max_pooling,
    transposed_convolution,
)
from lenet_trt.fuse.dense_layers import (
    channels_last_flattening,
    dense_layer,
    dense_layer_of_folded_rows,
    dense_layer_of_more_axes,
    scaled_outputs,
)
from lenet_trt.fuse.folding import constant_folding, known_sizes, reshaped
from lenet_trt.fuse.group_norms import norm_of_groups, norm_of_instances
from lenet_trt.fuse.last_axis import (
    constants_second,
    division_by_power_of_two,
    layer_normalization,
    mean_of_last_axis,
    softmax,
    top_k,
)
from lenet_trt.fuse.patch_merging import patches_of_slices, patches_of_squares
from lenet_trt.fuse.products import einsum_as_matmul, products_of_matrices
from lenet_trt.fuse.rms_norms import rms_norm
from lenet_trt.fuse.shuffles import halves_of_channels, interleaved_concat, pixel_shuffle
from lenet_trt.fuse.tokens import convolution_of_tokens, patches_as_tokens, tokens_as_maps
from lenet_trt.fuse.working_copy import WorkingGraph, WorkingNode

Rule: TypeAlias = Callable[[WorkingGraph, WorkingNode], None]
CLEANINGS: tuple[Rule, ...] = (
    constant_folding,
    known_sizes,
    reshaped,
    zero_points,
    no_ops,
    factors_of_one,
    empty_parts,
    needless_casts,
    defaults,
    flattening,
)
LAYERS: tuple[Rule, ...] = (
    convolution,
    transposed_convolution,
    dense_layer,
    max_pooling,
    softmax,
    layer_normalization,
    top_k,
    mean_of_last_axis,
    division_by_power_of_two,
    constants_second,
    rms_norm,
    norm_of_groups,
    norm_of_instances,
    layer_between_casts,
)
# These change what lies between layers, so a kernel for a part of them is looked for without these as well.
REORDERINGS: tuple[Rule, ...] = (
    activation_before_pooling,
    channels_last_flattening,
    einsum_as_matmul,
    dense_layer_of_more_axes,
    dense_layer_of_folded_rows,
    scaled_outputs,
    number_behind_new_axis,
    products_of_matrices,
    norm_of_channels,
    interleaved_concat,
    halves_of_channels,
    pixel_shuffle,
    patches_as_tokens,
    tokens_as_maps,
    convolution_of_tokens,
    patches_of_slices,
    patches_of_squares,
)
