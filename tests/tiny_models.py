"""Tiny random GGUF files in float32: real models to the runtime, written in a moment, the same for the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Quantised
from numpy.typing import NDArray

WIDTH = 64
HEADS = 4
HEAD = WIDTH // HEADS
HIDDEN = 96
INNER = 2 * WIDTH
STATE = 8
RANK = 4
KERNEL = 4
WINDOW = 16
N_CTX = 1024

BOS, EOS, TURN, UNUSED = 1, 2, 3, 4
PIECES = ("▁", "▁t", "▁th", "▁the", "▁c", "▁ca", "▁cat", "▁a", "in", "ing", "é")
TEMPLATE = (
    "{% for m in messages %}<start_of_turn>{{ m.role }}: {{ m.content }}<end_of_turn>{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>assistant: {% endif %}"
)


@dataclass(frozen=True)
class TinyVocabulary:
    """Texts and kinds of the ids, in the manner of SentencePiece with byte fallback."""

    texts: tuple[str, ...]
    kinds: tuple[int, ...]

    def padded(self, n: int) -> TinyVocabulary:
        """With `n` rows more that no text uses."""
        return TinyVocabulary(
            (*self.texts, *(f"[PAD{i}]" for i in range(n))), (*self.kinds, *[int(gguf.TokenType.UNUSED)] * n)
        )

    def swapped(self, a: int, b: int) -> TinyVocabulary:
        """With the texts of two ids exchanged."""
        texts = list(self.texts)
        texts[a], texts[b] = texts[b], texts[a]
        return replace(self, texts=tuple(texts))

    def renamed(self, token: int, text: str) -> TinyVocabulary:
        """With another text for one id."""
        return replace(self, texts=(*self.texts[:token], text, *self.texts[token + 1 :]))

    def __len__(self) -> int:
        return len(self.texts)


#: Begin, end and end of turn, an unused special token, the 256 bytes, letters and a few pieces.
VOCABULARY = TinyVocabulary(
    (
        *("<unk>", "<s>", "</s>", "<end_of_turn>", "<unused0>", "<start_of_turn>"),
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *"abcdefghijklmnopqrstuvwxyz.,:",
        *PIECES,
    ),
    (2, 3, 3, 3, 3, 3, *[6] * 256, *[1] * 29, *[1] * len(PIECES)),
)


class Weights:
    """Adds random tensors to a file; names as in GGUF, shapes as in numpy: rows are outputs."""

    def __init__(self, writer: gguf.GGUFWriter, seed: int, quantised: Quantised = Quantised.F32) -> None:
        self._writer = writer
        self._quantised = quantised
        self._rng = np.random.default_rng(seed)

    def matrix(self, name: str, rows: int, columns: int, scale: float = 1.5) -> None:
        """Normal numbers that keep the size of what goes through."""
        self.matrices(name, (rows, columns), scale)

    def matrices(self, name: str, shape: tuple[int, ...], scale: float = 1.5) -> None:
        """The same, several of them, in the type of the file's matrices where their rows are whole blocks."""
        values = self._rng.normal(0.0, scale / np.sqrt(shape[-1]), shape).astype(np.float32)
        kind = Quantised.F32 if shape[-1] % gguf.GGML_QUANT_SIZES[self._quantised][0] else self._quantised
        self._writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    def norm(self, name: str, size: int, *, around: float = 1.0) -> None:
        """Gains near `around`."""
        self.add(name, self._rng.normal(around, 0.1, size))

    def add(self, name: str, values: NDArray[np.float64]) -> None:
        """As it is."""
        self._writer.add_tensor(name, values.astype(np.float32))

    def attention(self, block: str, *, head_norms: bool = False) -> None:
        """Queries of every head, keys and values of half of them."""
        self.matrix(f"{block}.attn_q.weight", WIDTH, WIDTH)
        self.matrix(f"{block}.attn_k.weight", WIDTH // 2, WIDTH)
        self.matrix(f"{block}.attn_v.weight", WIDTH // 2, WIDTH)
        self.matrix(f"{block}.attn_output.weight", WIDTH, WIDTH)
        if head_norms:
            self.norm(f"{block}.attn_q_norm.weight", HEAD)
            self.norm(f"{block}.attn_k_norm.weight", HEAD)

    def feed_forward(self, block: str) -> None:
        """Gated."""
        self.norm(f"{block}.ffn_norm.weight", WIDTH)
        self.matrix(f"{block}.ffn_gate.weight", HIDDEN, WIDTH)
        self.matrix(f"{block}.ffn_up.weight", HIDDEN, WIDTH)
        self.matrix(f"{block}.ffn_down.weight", WIDTH, HIDDEN)

    def experts(self, block: str, n: int) -> None:
        """A gated feed-forward of which each token takes two."""
        self.norm(f"{block}.ffn_norm.weight", WIDTH)
        self.add(f"{block}.ffn_gate_inp.weight", self._rng.normal(0.0, 1.0, (n, WIDTH)))
        self.matrices(f"{block}.ffn_gate_exps.weight", (n, HIDDEN, WIDTH))
        self.matrices(f"{block}.ffn_up_exps.weight", (n, HIDDEN, WIDTH))
        self.matrices(f"{block}.ffn_down_exps.weight", (n, WIDTH, HIDDEN))

    def state_space(self, block: str, *, norms: bool = False) -> None:
        """A selective state space: convolution, then a running state."""
        self.matrix(f"{block}.ssm_in.weight", 2 * INNER, WIDTH)
        self.matrix(f"{block}.ssm_conv1d.weight", INNER, KERNEL)
        self.norm(f"{block}.ssm_conv1d.bias", INNER, around=0.0)
        self.matrix(f"{block}.ssm_x.weight", RANK + 2 * STATE, INNER)
        self.matrix(f"{block}.ssm_dt.weight", INNER, RANK)
        self.norm(f"{block}.ssm_dt.bias", INNER, around=-2.0)
        self.add(f"{block}.ssm_a", -np.tile(np.arange(1.0, STATE + 1), (INNER, 1)))
        self.norm(f"{block}.ssm_d", INNER)
        self.matrix(f"{block}.ssm_out.weight", WIDTH, INNER)
        if norms:
            self.norm(f"{block}.ssm_dt_norm.weight", RANK)
            self.norm(f"{block}.ssm_b_norm.weight", STATE)
            self.norm(f"{block}.ssm_c_norm.weight", STATE)


def write(
    path: Path,
    arch: str,
    seed: int = 0,
    vocabulary: TinyVocabulary = VOCABULARY,
    quantised: Quantised = Quantised.F32,
    experts: int = 0,
) -> Path:
    """A model of two layers. quantised: the type of its matrices. experts: how many a layer has, 0 for a plain one.

    arch: `llama`; `gemma3`, whose layers look at WINDOW ids; `mamba`, with a running state only; `jamba`, with a layer of
        each kind.
    """
    writer = gguf.GGUFWriter(path, arch)
    weights = Weights(writer, seed, quantised)
    _header(writer, arch)
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(2)
    _tokenizer(writer, vocabulary)
    weights.matrix("token_embd.weight", len(vocabulary), WIDTH, scale=WIDTH**0.5)
    weights.norm("output_norm.weight", WIDTH)
    # With the embeddings read once more instead, as some real files have it, random weights only repeat their last token.
    weights.matrix("output.weight", len(vocabulary), WIDTH, scale=3.0)
    for layer in range(2):
        block = f"blk.{layer}"
        weights.norm(f"{block}.attn_norm.weight", WIDTH)
        if arch == "mamba" or (arch == "jamba" and layer == 0):
            weights.state_space(block, norms=arch == "jamba")
        else:
            weights.attention(block, head_norms=arch == "gemma3")
        if experts:
            weights.experts(block, experts)
        elif arch != "mamba":
            weights.feed_forward(block)
        if arch == "gemma3":
            weights.norm(f"{block}.post_attention_norm.weight", WIDTH)
            weights.norm(f"{block}.post_ffw_norm.weight", WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _header(writer: gguf.GGUFWriter, arch: str) -> None:
    writer.add_name(f"tiny {arch}")
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(2)
    writer.add_feed_forward_length(0 if arch == "mamba" else HIDDEN)
    writer.add_head_count(0 if arch == "mamba" else HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    if arch in ("llama", "gemma3"):
        writer.add_head_count_kv(HEADS // 2)
        writer.add_key_length(HEAD)
        writer.add_value_length(HEAD)
        writer.add_rope_dimension_count(HEAD)
    if arch == "gemma3":
        writer.add_sliding_window(WINDOW)
    if arch == "jamba":
        writer.add_head_count_kv([0, HEADS // 2])
    if arch in ("mamba", "jamba"):
        writer.add_ssm_conv_kernel(KERNEL)
        writer.add_ssm_inner_size(INNER)
        writer.add_ssm_state_size(STATE)
        writer.add_ssm_time_step_rank(RANK)


def _tokenizer(writer: gguf.GGUFWriter, vocabulary: TinyVocabulary) -> None:
    writer.add_tokenizer_model("llama")
    writer.add_token_list(list(vocabulary.texts))
    writer.add_token_scores(_scores(vocabulary.texts))
    writer.add_token_types(list(vocabulary.kinds))
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)


def _scores(texts: Sequence[str]) -> list[float]:
    # Longer pieces are merged first, as SentencePiece would have them.
    return [0.0 if text.startswith("<") else float(len(text)) for text in texts]
