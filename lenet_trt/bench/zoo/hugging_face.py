"""Networks of Hugging Face's transformers, in the sizes of their first releases (imports torch and transformers)."""

from __future__ import annotations

import torch
import transformers
from torch import Tensor, nn
from transformers.models.whisper.modeling_whisper import WhisperEncoder


class Bert(nn.Module):
    """Compute features of texts: tokens [n, 128], attention_mask [n, 128] (0: padding) -> features [n, 128, 768]."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = transformers.BertModel(transformers.BertConfig(), add_pooling_layer=False)

    def forward(self, tokens: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the features."""
        return self.bert(tokens, attention_mask=attention_mask)[0]


class Gpt2(nn.Module):
    """Compute features of texts, each word's of those before it: tokens [n, 128] -> features [n, 128, 768]."""

    def __init__(self) -> None:
        super().__init__()
        self.gpt2 = transformers.GPT2Model(transformers.GPT2Config())

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the features."""
        # Without a mask transformers looks for packed texts, by an operator that opset 17 does not have.
        return self.gpt2(tokens, attention_mask=torch.ones_like(tokens), use_cache=False)[0]


class T5Text(nn.Module):
    """Compute features of texts by the encoder of T5 1.1 base: tokens [n, 128] -> features [n, 128, 768]."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"d_model": 768, "num_layers": 12, "num_heads": 12, "d_ff": 2048}
        self.t5 = transformers.T5EncoderModel(transformers.T5Config(**sizes, feed_forward_proj="gated-gelu"))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the features."""
        return self.t5(tokens, attention_mask=torch.ones_like(tokens))[0]


class SmolLm(nn.Module):
    """Compute features of texts by SmolLM-135M, a LLaMA: tokens [n, words] -> features [n, words, 576]."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30}
        heads = {"num_attention_heads": 9, "num_key_value_heads": 3}
        self.llama = transformers.LlamaModel(transformers.LlamaConfig(**sizes, **heads))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the features."""
        return self.llama(tokens, attention_mask=torch.ones_like(tokens), use_cache=False)[0]


class Qwen3(nn.Module):
    """Compute features of texts by twelve layers of Qwen3-0.6B: tokens [n, 128] -> features [n, 128, 1024]."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 12}
        heads = {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
        self.qwen = transformers.Qwen3Model(transformers.Qwen3Config(**sizes, **heads))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the features."""
        return self.qwen(tokens, attention_mask=torch.ones_like(tokens), use_cache=False)[0]


class Vit(nn.Module):
    """Compute features of images by ViT-B/16: images [n, 3, 224, 224] -> features [n, 197, 768]."""

    def __init__(self) -> None:
        super().__init__()
        self.vit = transformers.ViTModel(transformers.ViTConfig(), add_pooling_layer=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features."""
        return self.vit(images)[0]


class ClipImages(nn.Module):
    """Compute features of images by CLIP's ViT-B/16: images [n, 3, 224, 224] -> features [n, 197, 768]."""

    def __init__(self) -> None:
        super().__init__()
        self.clip = transformers.CLIPVisionModel(transformers.CLIPVisionConfig(patch_size=16))

    def forward(self, images: Tensor) -> Tensor:
        """Return the features."""
        return self.clip(images)[0]


class WhisperSound(nn.Module):
    """Compute features of 30 s of sound by the encoder of Whisper: sound [n, 80, 3000] -> features [n, 1500, 384]."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"d_model": 384, "encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536}
        self.encoder = WhisperEncoder(transformers.WhisperConfig(**sizes))

    def forward(self, sound: Tensor) -> Tensor:
        """Return the features."""
        return self.encoder(sound)[0]
