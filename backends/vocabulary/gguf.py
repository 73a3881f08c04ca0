"""The vocabulary of a GGUF file: the ids that llama.cpp gives for the same file."""

from __future__ import annotations

from typing import Final, Protocol

from pardec_chat.backends.base import Vocabulary
from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.backends.gguf.header import Header
from pardec_chat.backends.vocabulary.bpe import PATTERNS, BpeSplitter
from pardec_chat.backends.vocabulary.spm import SpmSplitter

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

#: Names that end an answer wherever they stand in a vocabulary, and those of which the first one found does.
ENDS: Final = frozenset(
    (
        *("<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>"),
        *("<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>"),
        *(
            "<end_of_utterance>",
            "<eos>",
            "<turn|>",
            "<|tool_response>",
            "<\uff5cend\u2581of\u2581sentence\uff5c>",
            "[e~[",
        ),
    )
)
_FILL_IN_ENDS: Final = (
    ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    ("<|file_sep|>",),
)
#: Other names that are markers, whatever the file says they are.
_MARKERS: Final = frozenset(
    (
        *("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<PRE>", "\u2581<PRE>", "<|code_prefix|>"),
        *("<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<SUF>", "\u2581<SUF>", "<|code_suffix|>"),
        *("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<MID>", "\u2581<MID>", "<|code_middle|>"),
    )
)


class Splitter(Protocol):
    """What makes ids of text without markers."""

    def split(self, text: str) -> list[int]:
        """Ids of `text`."""
        ...

    def piece(self, text: str) -> bytes:
        """The bytes that an ordinary piece stands for."""
        ...


class GgufVocabulary(Vocabulary):
    """From a file's header, read with everything in it. Raises ModelUnreadable for a kind that is not known here."""

    def __init__(self, header: Header) -> None:
        self._texts = [text.decode("utf-8", "replace") for text in header.texts("tokenizer.ggml.tokens")]
        self.size = len(self._texts)
        if not self.size:
            raise ModelUnreadable(f"{header.path.name} has no vocabulary.", "Choose another file of the model.")
        self._kinds = list(header.numbers("tokenizer.ggml.token_type")) or [NORMAL] * self.size
        ids: dict[str, int] = {}
        for i, text in enumerate(self._texts):
            ids.setdefault(text, i)
        self._splitter, is_spm = _splitter(header, ids)
        # What the file does not say follows from its kind.
        bos, eos = (1, 2) if is_spm else (11, 11)
        self._bos = _one(header, "bos_token_id", bos, self.size)
        self._eos = _one(header, "eos_token_id", eos, self.size)
        self.begins_with_bos = _flag(header, "add_bos_token", is_spm or _pre(header) in _BEGIN)
        self._adds_eos = _flag(header, "add_eos_token", False)
        self._adds_space = _flag(header, "add_space_prefix", is_spm)
        self.bos = "" if self._bos is None else self._texts[self._bos]
        self.eos = "" if self._eos is None else self._texts[self._eos]
        self.end_ids = self._find_ends(header, ids)
        for name in _MARKERS & ids.keys():
            self._kinds[ids[name]] = CONTROL
        marked = [i for i, kind in enumerate(self._kinds) if kind in (UNKNOWN, CONTROL, USER) and self._texts[i]]
        #: Names that are looked for in texts before anything else, the longest first.
        self._special = sorted(marked, key=lambda i: len(self._texts[i].encode()), reverse=True)

    def _find_ends(self, header: Header, ids: dict[str, int]) -> frozenset[int]:
        found = {ids[name] for name in ENDS if name in ids}
        for known in _FILL_IN_ENDS:
            first = next((name for name in known if name in ids), None)
            if first is not None:
                found.add(ids[first])
        for i in found:
            self._kinds[i] = CONTROL
        for key in ("eos_token_id", "eot_token_id", "eom_token_id"):
            named = _one(header, key, self._eos if key == "eos_token_id" else None, self.size)
            if named is not None:
                found.add(named)
        names = {self._texts[i] for i in found}
        calls = names & {"<|call|>", "<|calls|>"}
        if "<|end|>" in names and calls and names & {"<|return|>", "<|flush|>"}:
            found.discard(ids["<|end|>"])
            self._kinds[ids["<|end|>"]] = USER
        if "</s>" in names and names & {"<|tool_response>", "<|plamo:eos|>"}:
            found.discard(ids["</s>"])
            self._kinds[ids["</s>"]] = NORMAL
        return frozenset(found)

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """See `Vocabulary`."""
        text = text.encode("utf-8", "replace").decode()
        found = [self._bos] if add_special and self.begins_with_bos and self._bos is not None else []
        is_first = True  # behind the begin token, and behind each marker
        for part in self._parts(text, parse_special=parse_special):
            if isinstance(part, int):
                found.append(part)
            else:
                found += self._splitter.split(" " + part if self._adds_space and is_first else part)
            is_first = isinstance(part, int)
        if add_special and self._adds_eos and self._eos is not None:
            found.append(self._eos)
        return found

    def _parts(self, text: str, *, parse_special: bool) -> list[str | int]:
        parts: list[str | int] = [text] if text else []
        for token in self._special:
            name = self._texts[token]
            if name not in text or (not parse_special and self._kinds[token] in (UNKNOWN, CONTROL)):
                continue
            cut: list[str | int] = []
            for part in parts:
                if isinstance(part, int):
                    cut.append(part)
                    continue
                first, *others = part.split(name)
                cut += [first] if first else []
                for other in others:
                    cut += [token, other] if other else [token]
            parts = cut
        return parts

    def piece(self, token: int) -> bytes:
        """See `Vocabulary`."""
        kind, text = self._kinds[token], self._texts[token]
        if kind == USER:
            return text.encode()
        if kind == BYTE:
            return bytes([int(text[3:5], 16)])
        return self._splitter.piece(text) if kind == NORMAL else b""

    def text(self, token: int) -> str:
        """See `Vocabulary`."""
        return self._texts[token]


#: Ways of cutting whose texts begin with the begin token unless the file says otherwise.
_BEGIN: Final = frozenset({"llama3", "llama-v3", "llama-bpe", "falcon3", "tekken"})


def _pre(header: Header) -> str:
    return header.text("tokenizer.ggml.pre")


def _splitter(header: Header, ids: dict[str, int]) -> tuple[Splitter, bool]:
    """What cuts text, and whether it is of SentencePiece's kind."""
    model, pre = header.text("tokenizer.ggml.model"), _pre(header)
    if model == "llama":
        scores = header.metadata.get("tokenizer.ggml.scores")
        return SpmSplitter(
            ids, [float(s) for s in scores] if isinstance(scores, tuple | list) else [0.0] * len(ids)
        ), True
    if model == "gpt2" and pre in PATTERNS:
        merges = [merge.decode("utf-8", "replace") for merge in header.texts("tokenizer.ggml.merges")]
        return BpeSplitter(ids, merges, pre), False
    raise ModelUnreadable(
        f"{header.path.name} has a tokenizer ({model} {pre}) that is known to llama.cpp alone.".replace("  ", " "),
        "Take the llamacpp runtime, or the model's folder with a tokenizer.json.",
    )


def _one(header: Header, key: str, default: int | None, size: int) -> int | None:
    found = header.metadata.get(f"tokenizer.ggml.{key}", default)
    return found if isinstance(found, int) and 0 <= found < size else None


def _flag(header: Header, key: str, default: bool) -> bool:
    return bool(header.metadata.get(f"tokenizer.ggml.{key}", default))
