"""Byte-pair merging of GPT-2's kind, through the `tokenizers` package, cut into words as llama.cpp cuts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tokenizers import Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Split
from tokenizers.pre_tokenizers import Sequence as Steps

_CONTRACTIONS: Final = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_REST: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3: Final = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}"
_QWEN2: Final = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN: Final = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

#: `tokenizer.ggml.pre` → the patterns that cut a text into words, one after the other.
PATTERNS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("gpt-2", "olmo", "mpt"), (_GPT2,)),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"), (r"\p{N}", _GPT2)),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "smaug-bpe", "dbrx"), (_LLAMA3,)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2"), (_QWEN2,)),
    "tekken": (_TEKKEN,),
}
#: Those that take a word that is in the vocabulary as it is, whatever the merges would make of it.
WHOLE_WORDS: Final = frozenset({"llama3", "llama-v3", "llama-bpe", "falcon3", "tekken"})


def byte_characters() -> dict[str, int]:
    """The printable character that stands for each byte in such vocabularies (Radford et al. 2019)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    return table | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTES: Final = byte_characters()


class BpeSplitter:
    """Cuts text into the pieces of a vocabulary. merges: pairs of pieces with a space between, the first ones first."""

    def __init__(self, ids: Mapping[str, int], merges: Sequence[str], pre: str) -> None:
        pairs = [tuple(merge.split(" ", 1)) for merge in merges]
        known = [(a, b) for a, b in pairs if a in ids and b in ids and a + b in ids]
        self._tokenizer = Tokenizer(BPE(dict(ids), known, ignore_merges=pre in WHOLE_WORDS))
        cuts = [Split(Regex(pattern), "isolated") for pattern in PATTERNS[pre]]
        self._tokenizer.pre_tokenizer = Steps([*cuts, ByteLevel(add_prefix_space=False, use_regex=False)])

    def split(self, text: str) -> list[int]:
        """Ids of `text`."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def piece(self, text: str) -> bytes:
        """The bytes that an ordinary piece stands for."""
        return b"".join(bytes([_BYTES[c]]) if c in _BYTES else c.encode() for c in text)
