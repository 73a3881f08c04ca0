"""Tiny random models of each family as Hugging Face folders, made by transformers itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.models.gemma3 import Gemma3TextConfig
from transformers.models.llama import LlamaConfig
from transformers.models.mistral import MistralConfig
from transformers.models.qwen2 import Qwen2Config
from transformers.models.qwen3 import Qwen3Config

VOCABULARY = 320
_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "initializer_range": 0.3,
    "attn_implementation": "eager",
}
#: Name → what transformers makes it of.
CONFIGS: dict[str, Any] = {
    "llama": lambda: LlamaConfig(**_SIZES),
    "llama 3.1": lambda: LlamaConfig(
        **_SIZES,
        tie_word_embeddings=True,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    ),
    "mistral": lambda: MistralConfig(**_SIZES, sliding_window=16),
    "qwen2": lambda: Qwen2Config(**_SIZES),
    "qwen3": lambda: Qwen3Config(**_SIZES, head_dim=16),
    "gemma3": lambda: Gemma3TextConfig(
        **{**_SIZES, "num_hidden_layers": 7},
        head_dim=16,
        query_pre_attn_scalar=24,
        sliding_window=16,
        final_logit_softcapping=20.0,
    ),
}


def write(folder: Path, name: str, *, shards: bool = False) -> PreTrainedModel:
    """A folder with the model, its tokenizer and a chat template; gives the model."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[name](), dtype=torch.float32).eval()
    with torch.no_grad():
        for key, value in model.named_parameters():
            if "norm" in key:  # fresh norms do nothing
                value += torch.randn_like(value) * 0.1
            if key.endswith("bias"):
                value += torch.randn_like(value) * 0.3
    model.save_pretrained(folder, max_shard_size="40KB" if shards else "1GB")
    texts = ("<s>", "</s>", "<|im_end|>", "<pad>", *sorted(ByteLevel.alphabet()))
    tokenizer = Tokenizer(BPE({text: i for i, text in enumerate(texts)}, []))
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in texts[:4]])
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": "{{ messages[0].content }}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return model
