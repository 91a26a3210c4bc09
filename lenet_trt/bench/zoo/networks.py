"""List the networks of the survey: one of each kind that people run, with random weights from a fixed seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError

if TYPE_CHECKING:
    import torch

SEED = 0
BATCH_AXIS = "n"
_PICTURE = (3, 224, 224)


@dataclass(frozen=True)
class ZooInput:
    """Describe an input: its shape without the batch, and for whole numbers the number below which they are."""

    shape: tuple[int, ...]
    below: int | None = None

    def drawn(self, batch: int, random: np.random.Generator) -> NDArray[np.generic]:
        """Return random values: normal ones, or whole numbers of 32 bits, which every TensorRT takes."""
        shape = (batch, *self.shape)
        if self.below is not None:
            return random.integers(0, self.below, shape, np.int32)
        return random.standard_normal(shape, np.float32)


@dataclass(frozen=True)
class ZooNetwork:
    """Describe a network: ``make`` builds it in torch, ``about`` says in a few words what is in it."""

    name: str
    about: str
    make: Callable[[], torch.nn.Module]
    inputs: Mapping[str, ZooInput]
    outputs: Sequence[str] = ("logits",)

    def drawn(self, batch: int) -> dict[str, NDArray[np.generic]]:
        """Return random inputs, the same at each call."""
        random = np.random.default_rng(SEED)
        return {name: each.drawn(batch, random) for name, each in self.inputs.items()}


def _made(module: str, name: str, package: str = "torch", **options: Any) -> Callable[[], torch.nn.Module]:
    """Return a function that makes a network, a class or function of a module, without weights from anywhere."""
    return lambda: getattr(_imported(module, package), name)(**options)


def _vision(name: str) -> Callable[[], torch.nn.Module]:
    return _made("torchvision.models", name, "torchvision", weights=None)


def _hugging_face(name: str) -> Callable[[], torch.nn.Module]:
    return _made("lenet_trt.bench.zoo.hugging_face", name, "transformers")


def _diffusers(name: str) -> Callable[[], torch.nn.Module]:
    return _made("lenet_trt.bench.zoo.hugging_face_diffusers", name, "diffusers")


def _imported(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision was built for another torch
        raise LenetTrtError(
            f"this network of the zoo comes from {package}, which cannot be imported ({error}): pip install "
            "'lenet-trt[zoo]', with the torchvision that fits the torch here"
        ) from error


def _convnext_atto() -> torch.nn.Module:
    models = _imported("torchvision.models", "torchvision")
    widths = (40, 80, 160, 320)
    depths = (2, 2, 6, 2)
    stages = [
        models.convnext.CNBlockConfig(width, after, depth)
        for width, after, depth in zip(widths, (*widths[1:], None), depths, strict=True)
    ]
    return models.ConvNeXt(stages)


_IMAGES = {"images": ZooInput(_PICTURE)}
_FEATURES = ("features",)
_VIT_SIZES = {"image_size": 224, "patch_size": 16, "num_layers": 12, "num_heads": 3, "hidden_dim": 192, "mlp_dim": 768}
_VIT_TINY = _made("torchvision.models", "VisionTransformer", "torchvision", **_VIT_SIZES)
ZOO: tuple[ZooNetwork, ...] = (
    ZooNetwork("resnet18", "3x3 convolutions, residual sums", _vision("resnet18"), _IMAGES),
    ZooNetwork("resnet50", "1x1 and 3x3 convolutions, residual sums", _vision("resnet50"), _IMAGES),
    ZooNetwork(
        "mobilenet_v3", "depthwise convolutions, squeeze and excite, Hardswish", _vision("mobilenet_v3_large"), _IMAGES
    ),
    ZooNetwork(
        "efficientnet_b0", "depthwise convolutions, squeeze and excite, SiLU", _vision("efficientnet_b0"), _IMAGES
    ),
    ZooNetwork("shufflenet_v2", "channel split and shuffle", _vision("shufflenet_v2_x1_0"), _IMAGES),
    ZooNetwork("convnext_atto", "7x7 depthwise convolutions, LayerNorm over channels, GELU", _convnext_atto, _IMAGES),
    ZooNetwork("vit_tiny", "attention over 197 patches of an image", _VIT_TINY, _IMAGES),
    ZooNetwork("swin_tiny", "attention in shifted windows", _vision("swin_t"), _IMAGES),
    ZooNetwork(
        "unet",
        "convolutions at five sizes, transposed convolutions",
        _made("lenet_trt.bench.zoo.dense", "UNet"),
        {"images": ZooInput((3, 256, 256))},
        ("masks",),
    ),
    ZooNetwork(
        "diffusion",
        "a U-Net of GroupNorm, SiLU and convolutions, attention over pixels",
        _made("lenet_trt.bench.zoo.diffusion", "Diffusion"),
        {"images": ZooInput((4, 64, 64)), "step": ZooInput((256,))},
        ("noise",),
    ),
    ZooNetwork(
        "stable_diffusion",
        "two levels of Stable Diffusion 2.1's U-Net: convolutions, attention to pixels and words",
        _diffusers("StableDiffusion"),
        {"latents": ZooInput((4, 64, 64)), "step": ZooInput(()), "words": ZooInput((77, 1024))},
        ("noise",),
    ),
    ZooNetwork(
        "dit",
        "six layers of the diffusion transformer DiT-XL/2: norms that the step and the class scale and shift",
        _diffusers("DiffusionTransformer"),
        {"latents": ZooInput((4, 32, 32)), "step": ZooInput(()), "classes": ZooInput((), 1000)},
        ("noise",),
    ),
    ZooNetwork(
        "super_resolution",
        "convolutions at full size, pixel shuffle, bilinear resize",
        _made("lenet_trt.bench.zoo.dense", "SuperResolution"),
        {"images": ZooInput((3, 128, 128))},
        ("larger",),
    ),
    ZooNetwork(
        "detector",
        "three scales, decoding of boxes, TopK",
        _made("lenet_trt.bench.zoo.dense", "Detector"),
        {"images": ZooInput((3, 256, 256))},
        ("boxes", "scores", "classes"),
    ),
    ZooNetwork(
        "audio_convolutions",
        "dilated 1-D convolutions, GroupNorm",
        _made("lenet_trt.bench.zoo.sequences", "AudioConvolutions"),
        {"sound": ZooInput((1, 8000))},
    ),
    ZooNetwork(
        "lstm",
        "a bidirectional LSTM over 64 steps",
        _made("lenet_trt.bench.zoo.sequences", "Recurrent"),
        {"features": ZooInput((64, 40))},
    ),
    ZooNetwork(
        "text_encoder",
        "embedding and attention over 128 tokens",
        _made("lenet_trt.bench.zoo.sequences", "TextEncoder"),
        {"tokens": ZooInput((128,), 8000)},
    ),
    ZooNetwork(
        "point_cloud",
        "nearest neighbours by TopK, gather",
        _made("lenet_trt.bench.zoo.graphs", "PointCloud"),
        {"points": ZooInput((256, 3))},
    ),
    ZooNetwork(
        "message_passing",
        "gather along edges, scatter with sums",
        _made("lenet_trt.bench.zoo.graphs", "MessagePassing"),
        {"nodes": ZooInput((64, 32)), "edges": ZooInput((2, 256), 64)},
    ),
    ZooNetwork(
        "bert",
        "BERT-base: attention over 128 words, some of them padding",
        _hugging_face("Bert"),
        {"tokens": ZooInput((128,), 30000), "attention_mask": ZooInput((128,), 2)},
        _FEATURES,
    ),
    ZooNetwork(
        "gpt2",
        "causal attention over 128 words",
        _hugging_face("Gpt2"),
        {"tokens": ZooInput((128,), 50000)},
        _FEATURES,
    ),
    ZooNetwork(
        "t5_encoder",
        "T5 1.1 base: RMS norms, attention with a bias of positions, gated layers",
        _hugging_face("T5Text"),
        {"tokens": ZooInput((128,), 32000)},
        _FEATURES,
    ),
    ZooNetwork(
        "smollm",
        "SmolLM-135M, a LLaMA: RMS norms, rotary positions, heads that share keys, gated layers",
        _hugging_face("SmolLm"),
        {"tokens": ZooInput((128,), 49000)},
        _FEATURES,
    ),
    ZooNetwork(
        "smollm_long",
        "SmolLM-135M over texts of 2,048 words",
        _hugging_face("SmolLm"),
        {"tokens": ZooInput((2048,), 49000)},
        _FEATURES,
    ),
    ZooNetwork(
        "qwen3",
        "twelve layers of Qwen3-0.6B: queries and keys that are normalised, rotary positions, gated layers",
        _hugging_face("Qwen3"),
        {"tokens": ZooInput((128,), 32000)},
        _FEATURES,
    ),
    ZooNetwork("vit_base", "ViT-B/16: attention over 197 patches", _hugging_face("Vit"), _IMAGES, _FEATURES),
    ZooNetwork(
        "clip_images", "CLIP's ViT-B/16: attention over 197 patches", _hugging_face("ClipImages"), _IMAGES, _FEATURES
    ),
    ZooNetwork(
        "whisper_encoder",
        "Whisper tiny: attention over 1500 steps of sound",
        _hugging_face("WhisperSound"),
        {"sound": ZooInput((80, 3000))},
        _FEATURES,
    ),
)
