"""Networks of Hugging Face's diffusers (imports torch and diffusers)."""

from __future__ import annotations

import diffusers
from torch import Tensor, nn


class StableDiffusion(nn.Module):
    """Find the noise in latents by the upper two levels of Stable Diffusion 2.1's U-Net.

    latents [n, 4, 64, 64], step [n], words [n, 77, 1024] -> noise [n, 4, 64, 64].
    """

    def __init__(self) -> None:
        super().__init__()
        self.unet = diffusers.UNet2DConditionModel(
            sample_size=64,
            block_out_channels=(320, 640),
            down_block_types=("CrossAttnDownBlock2D",) * 2,
            up_block_types=("CrossAttnUpBlock2D",) * 2,
            attention_head_dim=(5, 10),
            cross_attention_dim=1024,
            use_linear_projection=True,
        )

    def forward(self, latents: Tensor, step: Tensor, words: Tensor) -> Tensor:
        """Return the noise."""
        return self.unet(latents, step, words).sample


class DiffusionTransformer(nn.Module):
    """Find the noise in latents by six of the 28 layers of DiT-XL/2, for images of 256x256 pixels.

    latents [n, 4, 32, 32], step [n], classes [n] -> noise and its variance [n, 8, 32, 32].
    """

    def __init__(self) -> None:
        super().__init__()
        self.transformer = diffusers.DiTTransformer2DModel(
            num_attention_heads=16,
            attention_head_dim=72,
            in_channels=4,
            out_channels=8,
            num_layers=6,
            sample_size=32,
            patch_size=2,
            num_embeds_ada_norm=1000,
        )

    def forward(self, latents: Tensor, step: Tensor, classes: Tensor) -> Tensor:
        """Return the noise and its variance."""
        return self.transformer(latents, step, classes).sample
