"""The network of a diffusion model, which finds the noise in images (imports torch)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

_GROUPS, _HEAD = 32, 64


class _Residual(nn.Module):
    """Two convolutions, each behind a group norm and SiLU; what is known of the step is added between them."""

    def __init__(self, inputs: int, outputs: int, step: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(_GROUPS, width) for width in (inputs, outputs))
        self.convolutions = nn.ModuleList(nn.Conv2d(width, outputs, 3, 1, 1) for width in (inputs, outputs))
        self.step = nn.Linear(step, outputs)
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        y = self.convolutions[0](functional.silu(self.norms[0](x)))
        y = y + self.step(step)[:, :, None, None]
        return self.shortcut(x) + self.convolutions[1](functional.silu(self.norms[1](y)))


class _Attention(nn.Module):
    """Attention over the pixels of an image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(_GROUPS, width)
        self.joined, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads = width // _HEAD

    def forward(self, x: Tensor) -> Tensor:
        _, width, height, across = x.shape
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        parts = self.joined(tokens).reshape(-1, height * across, 3, self.heads, _HEAD).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        rows = self.out(found.transpose(1, 2).reshape(-1, height * across, width))
        return x + rows.transpose(1, 2).reshape(-1, width, height, across)


class Diffusion(nn.Module):
    """Find the noise: images [n, 4, 64, 64], step [n, 256], which says how noisy they are -> noise [n, 4, 64, 64]."""

    def __init__(self, widths: tuple[int, ...] = (128, 256, 512), step: int = 256) -> None:
        super().__init__()
        shallow = (widths[0], *widths[:-1])
        self.step = nn.Sequential(nn.Linear(step, step), nn.SiLU())
        self.first = nn.Conv2d(4, widths[0], 3, 1, 1)
        self.down = nn.ModuleList(_Residual(*pair, step) for pair in zip(shallow, widths, strict=True))
        self.halved = nn.ModuleList(nn.Conv2d(width, width, 3, 2, 1) for width in widths[:-1])
        self.middle = nn.ModuleList(_Residual(widths[-1], widths[-1], step) for _ in range(2))
        self.attention = _Attention(widths[-1])
        self.up = nn.ModuleList(_Residual(2 * deep, out, step) for deep, out in zip(widths, shallow, strict=True))
        self.doubled = nn.ModuleList(nn.Conv2d(width, width, 3, 1, 1) for width in widths[:-1])
        self.last = nn.Sequential(nn.GroupNorm(_GROUPS, widths[0]), nn.SiLU(), nn.Conv2d(widths[0], 4, 3, 1, 1))

    def forward(self, images: Tensor, step: Tensor) -> Tensor:
        """Return the noise."""
        step = self.step(step)
        x, kept = self.first(images), []
        for level, block in enumerate(self.down):
            x = block(x, step)
            kept.append(x)
            if level < len(self.halved):
                x = self.halved[level](x)
        x = self.middle[1](self.attention(self.middle[0](x, step)), step)
        for level in reversed(range(len(self.up))):
            if level < len(self.doubled):
                x = self.doubled[level](functional.interpolate(x, scale_factor=2.0, mode="nearest"))
            x = self.up[level](torch.cat([x, kept[level]], 1), step)
        return self.last(x)
