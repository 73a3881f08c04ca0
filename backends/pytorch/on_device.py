"""Acceptance where the logits are: a step brings some ids to the host instead of rows of logits.

For answers whose tokens depend on a row alone, so without penalties, bias, grammar and reported probabilities, and for drafts
that were chosen and not drawn: the walk rule. All others are judged on the host (`decoding.acceptance`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pardec_chat.backends.base import Draft, Verdict
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.pytorch.cache import Cache


def suits(cache: Cache, draft: Draft, sampler: Sampler) -> bool:
    """Whether a draft can be judged here. The kernel that compacts takes heads of a power of two."""
    head = cache.data.shape[-1]
    return draft.probabilities is None and sampler.bare and sampler.params.logprobs is None and head & (head - 1) == 0


@dataclass(frozen=True, slots=True)
class Judged:
    """A draft whose verdict is on its way: `numbers` on the device become a verdict on the host."""

    draft: Draft
    sampler: Sampler
    numbers: Tensor

    def verdict(self, numbers: list[int]) -> Verdict:
        """What `numbers` say; advances the sampler by what is emitted."""
        n = len(self.draft)
        n_tokens, n_path, rest = numbers[0], numbers[1], numbers[2:]
        tokens, path, probed = rest[:n_tokens], rest[n + 1 : n + 1 + n_path], rest[n + 1 + max(1, n) :]
        if not self.sampler.params.greedy:
            self.sampler.use(n_tokens)
        for token in tokens:
            self.sampler.push(token)
        return Verdict(tokens, path, None, probed)


def judge(cache: Cache, slot: int, start: int, draft: Draft, sampler: Sampler, logits: Tensor, ends: Tensor) -> Judged:
    """Walk the draft and move the accepted rows to the front of its block at cell `start`; nobody waits for the device.

    logits: of the last committed token, the draft's nodes and the leaves of its probes, [rows, V]. ends: uint8 [V].
    """
    from pardec_chat.kernels.kv_compact import triton as kv_compact
    from pardec_chat.kernels.verify_accept import triton as verify_accept

    device, n = logits.device, len(draft)
    tree = torch.tensor([*draft.tokens, *draft.parents], dtype=torch.int32).to(device, non_blocking=True)
    rows, params = logits[: n + 1], sampler.params
    chance = torch.zeros(n + 1, device=device)
    if not params.greedy:
        rows = verify_accept.distribution(rows, params.temperature, params.top_k, params.top_p, params.min_p)
        chance = torch.tensor(sampler.peek(n + 1), dtype=torch.float32).to(device, non_blocking=True)
    out, path, count = verify_accept.accept(rows, None, tree[:n], tree[n:], ends, chance, chance, greedy=params.greedy)
    kept = torch.cat([path.new_zeros(1), path + 1])
    at = torch.full((1,), start, dtype=torch.int32, device=device)
    kv_compact.compact(cache.data, slot, at, kept, count[1:] + 1)
    probed = logits[n + 1 :].argmax(dim=-1).int()
    return Judged(draft, sampler, torch.cat([count, out, path, probed]))
