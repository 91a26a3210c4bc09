"""Networks over points and graphs, whose neighbours are data (imports torch)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_NEIGHBOURS = 16


class PointCloud(nn.Module):
    """Classify points by convolutions over the edges to the nearest points: points [n, 256, 3] -> logits [n, 40]."""

    def __init__(self, widths: tuple[int, ...] = (32, 64)) -> None:
        super().__init__()
        befores = (3, *widths[:-1])
        self.edges = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * before, after), nn.ReLU(), nn.Linear(after, after))
            for before, after in zip(befores, widths, strict=True)
        )
        self.head = nn.Sequential(nn.Linear(sum(widths), 256), nn.ReLU(), nn.Linear(256, 40))

    def forward(self, points: Tensor) -> Tensor:
        """Return the logits."""
        x, found = points, []
        for edge in self.edges:
            neighbours = _gathered(x, _nearest(x))
            centre = x.unsqueeze(2).expand_as(neighbours)
            x = edge(torch.cat([centre, neighbours - centre], 3)).amax(2)
            found.append(x)
        return self.head(torch.cat(found, 2).amax(1))


def _nearest(x: Tensor) -> Tensor:
    """Return the indexes of the nearest points of each point: [n, points, features] -> [n, points, neighbours]."""
    squares = (x * x).sum(2)
    distances = squares.unsqueeze(2) + squares.unsqueeze(1) - 2 * x @ x.transpose(1, 2)
    return (-distances).topk(_NEIGHBOURS, 2).indices


def _gathered(x: Tensor, index: Tensor) -> Tensor:
    """Return the features at each index: [n, points, features], [n, points, k] -> [n, points, k, features]."""
    points, features = x.shape[1:]
    flat = index.reshape(-1, points * _NEIGHBOURS, 1).expand(-1, -1, features)
    return x.gather(1, flat).reshape(-1, points, _NEIGHBOURS, features)


class MessagePassing(nn.Module):
    """Classify graphs: nodes [n, 64, 32], edges [n, 2, 256] whole numbers below 64 -> logits [n, 10].

    Each edge takes the features of the node where it begins; each node adds up what its edges bring.
    """

    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.messages = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.updates = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.head = nn.Linear(width, 10)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """Return the logits."""
        width = nodes.shape[2]
        begin, end = (edges[:, side].long().unsqueeze(2).expand(-1, -1, width) for side in (0, 1))
        x = nodes
        for message, update in zip(self.messages, self.updates, strict=True):
            brought = torch.relu(message(x.gather(1, begin)))
            total = torch.zeros_like(x).scatter_add(1, end, brought)
            x = torch.relu(update(torch.cat([x, total], 2)))
        return self.head(x.mean(1))
