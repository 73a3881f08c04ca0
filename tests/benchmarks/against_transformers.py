"""The pytorch runtime beside transformers: same weights, same numbers, one process, taking turns.

    python -m pardec_chat.tests.benchmarks.against_transformers TARGET.gguf [--draft DRAFT.gguf] [--dtype bf16|fp32]
        [--draft-dtype auto|bf16|fp32 …] [--tokens 40] [--rounds 3] [--depth auto|N …] [--tree 0] [--alone]

Greedy, decoding alone: the prompt's time is taken off. With a draft model both guess with it: ours at the depths given, of
which `auto` is the controller's choice, as in the app, learned from the answers before; theirs with its own schedule and with
constant numbers of guesses, of which the best counts. Ours may keep its draft model in other numbers, theirs never does.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM
from transformers.models.llama import LlamaConfig
from transformers.models.qwen2 import Qwen2Config

from pardec_chat.backends.base import LoadOptions
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.pytorch.model import open_model
from pardec_chat.backends.pytorch.runtime import make
from pardec_chat.backends.pytorch.target import PytorchTarget
from pardec_chat.tests.decode import generate

_PROMPTS = (
    "Write a Python function is_prime(n).",
    "Write a Python function that merges two sorted lists.",
    "Write a Python class Stack with push, pop and peek.",
)
#: Guesses of theirs that are tried beside its own schedule.
_CONSTANT = (3, 5)
#: Our names for tensors → theirs.
_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


class _Clock:
    """A streamer that notes when the first and the last new token came."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.n = 0

    def put(self, value: Any) -> None:
        """Prompt first, then new tokens."""
        self.times.append(perf_counter())
        self.n += value.numel() if len(self.times) > 1 else 0

    def end(self) -> None:
        """Nothing to do."""


def _theirs(model: Any, ids: list[int], n: int, **options: Any) -> tuple[float, list[int]]:
    """Tokens a second behind the first, and the new tokens."""
    clock = _Clock()
    start = perf_counter()
    with torch.inference_mode():
        found = model.generate(
            torch.tensor([ids]), max_new_tokens=n, do_sample=False, streamer=None if options else clock, **options
        )[0].tolist()
    whole = perf_counter() - start
    if not options:
        return (len(clock.times) - 2) / (clock.times[-1] - clock.times[1]), found[len(ids) :]
    # Assisted generation takes no streamer: its prompt is timed by itself.
    start = perf_counter()
    with torch.inference_mode():
        model(torch.tensor([ids]))
        options["assistant_model"](torch.tensor([ids]))
    return (len(found) - len(ids)) / (whole - (perf_counter() - start)), found[len(ids) :]


def _hf(path: Path, dtype: torch.dtype) -> Any:
    """transformers' model of the same family on the same numbers, which it keeps in its own way."""
    transformers.utils.logging.set_verbosity_error()
    model_file = open_model(path)
    spec, weights = model_file.spec, model_file.weights
    make_config = {"llama": LlamaConfig, "qwen2": Qwen2Config}[spec.family]
    config = make_config(
        vocab_size=spec.vocabulary,
        hidden_size=spec.width,
        intermediate_size=spec.hidden,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        num_key_value_heads=spec.kv_heads,
        max_position_embeddings=spec.context,
        rms_norm_eps=spec.eps,
        rope_parameters={"rope_type": "default", "rope_theta": spec.rope.base},
        tie_word_embeddings=False,
        attn_implementation="sdpa",
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    state = {}
    for name in weights.names:
        _, _, rest = name.partition("blk.")
        layer, _, inner = rest.partition(".")
        stem, _, end = (inner or name).rpartition(".")
        theirs = f"model.layers.{layer}.{_LAYER_NAMES[stem]}" if rest else _NAMES[stem]
        state[f"{theirs}.{end}"] = weights.values(name, dtype)
    state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
    weights.close()
    missing, unexpected = model.load_state_dict(state, strict=True, assign=True)
    assert not missing and not unexpected
    # What is no weight was made without memory too.
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    return model


def main() -> None:
    """Print one line a prompt and way, then medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--depth", nargs="+", default=["auto", "4"])
    parser.add_argument("--draft-dtype", nargs="+", choices=("auto", "bf16", "fp32"), default=["auto"])
    parser.add_argument("--tree", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="without transformers")
    arguments = parser.parse_args()
    runtime = make()
    target = runtime.load(LoadOptions(arguments.target, n_ctx=512, branches=64, dtype=arguments.dtype))
    assert isinstance(target, PytorchTarget)
    drafts = {
        dtype: runtime.load(LoadOptions(arguments.draft, n_ctx=512, branches=64, draft=True, dtype=dtype))
        for dtype in (arguments.draft_dtype if arguments.draft is not None else ())
    }
    controllers = {dtype: Controller() for dtype in drafts}
    theirs = None if arguments.alone else _hf(arguments.target, target.decoder.dtype)
    assistant = None
    if drafts and not arguments.alone:
        assistant = _hf(arguments.draft, target.decoder.dtype)
    speeds: dict[tuple[str, str], list[float]] = {}
    for round_ in range(arguments.rounds + 1):  # the first one warms up
        for prompt in _PROMPTS if round_ else _PROMPTS[:1]:
            text = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
            ids = target.vocabulary.encode(text, add_special=target.vocabulary.begins_with_bos, parse_special=True)
            n = arguments.tokens if round_ else 8
            found: dict[str, float] = {}
            plain = generate(target, ids, max_tokens=n).generation.stats
            found["ours"] = plain.tokens_per_second or 0.0
            for dtype, depth in product(drafts, arguments.depth):
                drafter = DraftModel(drafts[dtype], tree=arguments.tree)
                stats = generate(
                    target,
                    ids,
                    max_tokens=n,
                    drafter=drafter,
                    depth=None if depth == "auto" else int(depth),
                    controller=controllers[dtype],
                ).generation.stats
                found[f"ours, draft {dtype}, depth {depth}"] = stats.tokens_per_second or 0.0
                found[f"ours, draft {dtype}, depth {depth}: tokens a step"] = stats.tokens_per_step or 0.0
                drafter.close()
            if theirs is not None:
                found["theirs"] = _theirs(theirs, ids, n)[0]
            if theirs is not None and assistant is not None:
                settings = assistant.generation_config
                found["theirs, assisted"] = _theirs(theirs, ids, n, assistant_model=assistant)[0]
                before = (settings.num_assistant_tokens, settings.num_assistant_tokens_schedule)
                for k in _CONSTANT:
                    settings.num_assistant_tokens, settings.num_assistant_tokens_schedule = k, "constant"
                    settings.assistant_confidence_threshold = 0.0
                    found[f"theirs, assisted, {k}"] = _theirs(theirs, ids, n, assistant_model=assistant)[0]
                settings.num_assistant_tokens, settings.num_assistant_tokens_schedule = before
                settings.assistant_confidence_threshold = 0.4
            if round_:
                for way, speed in found.items():
                    speeds.setdefault((prompt, way), []).append(speed)
                print(
                    f"{prompt[:32]:32} " + "  ".join(f"{way} {speed:.2f}" for way, speed in found.items()), flush=True
                )
    print("medians")
    for (prompt, way), values in speeds.items():
        print(f"  {prompt[:32]:32} {way:40} {median(values):7.2f}")


if __name__ == "__main__":
    main()
