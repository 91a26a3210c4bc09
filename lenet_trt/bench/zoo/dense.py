"""Networks that give a value for each pixel, or boxes (imports torch)."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

_TOP = 100


def _block(channels: int, out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=False)
    )


class UNet(nn.Module):
    """Segment images: images [n, 3, 256, 256] -> masks [n, 2, 256, 256]."""

    def __init__(self, width: int = 32, levels: int = 4) -> None:
        super().__init__()
        widths = [width << level for level in range(levels + 1)]
        self.down = nn.ModuleList(
            nn.Sequential(_block(before, after), _block(after, after))
            for before, after in zip([3, *widths[:-1]], widths, strict=True)
        )
        pairs = list(zip(reversed(widths[1:]), reversed(widths[:-1]), strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(deep, shallow, 2, 2) for deep, shallow in pairs)
        self.joined = nn.ModuleList(
            nn.Sequential(_block(2 * shallow, shallow), _block(shallow, shallow)) for _, shallow in pairs
        )
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Return the masks."""
        kept: list[Tensor] = []
        x = images
        for level in self.down:
            x = level(functional.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        for up, joined, before in zip(self.up, self.joined, reversed(kept[:-1]), strict=True):
            x = joined(torch.cat([up(x), before], 1))
        return self.head(x)


class SuperResolution(nn.Module):
    """Double the size of images: images [n, 3, 128, 128] -> larger [n, 3, 256, 256]."""

    def __init__(self, width: int = 64, blocks: int = 8) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, 1, 1)
        self.body = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1))
            for _ in range(blocks)
        )
        self.tail = nn.Sequential(nn.Conv2d(width, 4 * 3, 3, 1, 1), nn.PixelShuffle(2))

    def forward(self, images: Tensor) -> Tensor:
        """Return the larger images: a resized image plus what the convolutions add."""
        x = self.head(images)
        for block in self.body:
            x = x + block(x)
        resized = functional.interpolate(images, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.tail(x) + resized


class Detector(nn.Module):
    """Find objects: images [n, 3, 256, 256] -> boxes [n, 100, 4], scores [n, 100], classes [n, 100].

    Each place of three scales gives the distances to the four sides of a box, each as a softmax over 16 bins, and a
    score for each class; the 100 places with the largest scores are the answer, without suppression of overlaps.
    """

    def __init__(self, classes: int = 80, bins: int = 16) -> None:
        super().__init__()
        self._classes, self._bins = classes, bins
        widths = (32, 64, 96, 128)
        self.stem = nn.Sequential(_block(3, 16, 2), _block(16, widths[0], 2))
        self.stages = nn.ModuleList(
            nn.Sequential(_block(before, after, 2), _block(after, after)) for before, after in pairwise(widths)
        )
        self.heads = nn.ModuleList(nn.Conv2d(width, 4 * bins + classes, 1) for width in widths[1:])
        places, strides = [], []
        for stride in (8, 16, 32):
            side = (torch.arange(256 // stride) + 0.5) * stride
            y, x = torch.meshgrid(side, side, indexing="ij")
            places.append(torch.stack([x.flatten(), y.flatten()], -1))
            strides.append(torch.full((x.numel(), 1), float(stride)))
        self.register_buffer("places", torch.cat(places))
        self.register_buffer("strides", torch.cat(strides))
        self.register_buffer("bin_values", torch.arange(bins, dtype=torch.float32))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return boxes, scores and classes of the best places."""
        x, found = self.stem(images), []
        for stage, head in zip(self.stages, self.heads, strict=True):
            x = stage(x)
            found.append(head(x).flatten(2))
        every = torch.cat(found, 2).transpose(1, 2)
        sides, logits = every.split([4 * self._bins, self._classes], 2)
        shares = sides.reshape(-1, self.places.shape[0], 4, self._bins).softmax(3)
        distances = (shares * self.bin_values).sum(3) * self.strides
        near, far = distances.chunk(2, 2)
        boxes = torch.cat([self.places - near, self.places + far], 2)
        best, classes = logits.sigmoid().max(2)
        scores, places = best.topk(_TOP, 1)
        chosen = boxes.gather(1, places.unsqueeze(2).expand(-1, -1, 4))
        return chosen, scores, classes.gather(1, places)
