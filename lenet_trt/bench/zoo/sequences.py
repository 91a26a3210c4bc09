"""Networks over sound, features in time and text (imports torch)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class AudioConvolutions(nn.Module):
    """Classify sound by dilated convolutions along time: sound [n, 1, 8000] -> logits [n, 35]."""

    def __init__(self, width: int = 64, blocks: int = 6) -> None:
        super().__init__()
        self.stem = nn.Conv1d(1, width, 16, 4, 6)
        self.filters = nn.ModuleList(nn.Conv1d(width, width, 9, 1, 4 << i, 1 << i) for i in range(blocks))
        self.norms = nn.ModuleList(nn.GroupNorm(8, width) for _ in range(blocks))
        self.head = nn.Linear(width, 35)

    def forward(self, sound: Tensor) -> Tensor:
        """Return the logits."""
        x = self.stem(sound)
        for convolution, norm in zip(self.filters, self.norms, strict=True):
            x = x + functional.silu(norm(convolution(x)))
        return self.head(x.mean(2))


class Recurrent(nn.Module):
    """Classify each step of features in time by an LSTM in both directions: [n, 64, 40] -> logits [n, 64, 30]."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 30)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits of each step."""
        return self.head(self.lstm(features)[0])


class TextEncoder(nn.Module):
    """Classify text by attention: tokens [n, 128] whole numbers below 8000 -> logits [n, 2]."""

    def __init__(self, width: int = 256, layers: int = 4, heads: int = 4) -> None:
        super().__init__()
        self.words = nn.Embedding(8000, width)
        self.places = nn.Parameter(torch.randn(128, width))
        self.layers = nn.ModuleList(_EncoderLayer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits."""
        x = self.words(tokens) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


class _EncoderLayer(nn.Module):
    """Add attention and two dense layers to a sequence, each after a LayerNorm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads, self._scale = heads, (width // heads) ** -0.5
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sequence, changed."""
        length, width = x.shape[1:]
        q, k, v = (
            part.reshape(-1, length, self._heads, width // self._heads).transpose(1, 2)
            for part in self.qkv(self.norms[0](x)).chunk(3, 2)
        )
        shares = (q @ k.transpose(2, 3) * self._scale).softmax(3)
        x = x + self.out((shares @ v).transpose(1, 2).reshape(-1, length, width))
        return x + self.narrow(functional.gelu(self.wide(self.norms[1](x))))
