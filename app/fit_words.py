"""What a model takes against what is free, in words and as a picture; neither a widget nor a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from pardec_chat.app.lines import BLANK, Line, Role, wrapped
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import wording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pardec_chat.backends.memory import Part, Plan

#: The machine's own memory among the devices of a plan.
_HOST = "memory"
#: What a bar is made of, in its order: filling, role.
_KINDS: dict[str, tuple[str, Role]] = {
    "weights": ("█", "bar"),
    "cache": ("▓", "bar"),
    "buffers": ("▒", "bar"),
    "draft": ("▚", "value"),
    "program": ("░", "value"),
}
_FREE = "┄"
_BAR = 72
#: Cells of a line that is read, at most.
_READABLE = 100
_CACHES = {"f16": "16 bits", "q8_0": "8 bits"}


def plan_lines(plan: Plan, width: int) -> list[Line]:
    """The verdict, what was planned for, and each device with its parts; lines of `width` cells at most."""
    lines = wrapped(verdict(plan), min(_READABLE, width), "value")
    lines += wrapped(_planned_for(plan), min(_READABLE, width), "quiet")
    for device in plan.free:
        lines += [BLANK, *_device(plan, device, width)]
    return lines


def verdict(plan: Plan) -> str:
    """Whether it fits, in a sentence."""
    if not plan.fits:
        lacking = [device for device, free in plan.free.items() if plan.need(device) > free]
        first, *others = [f"{_missing(plan, device)}{{}} {_at(device)}" for device in lacking]
        return f"It does not fit: {' and '.join([first.format(' are missing'), *(o.format('') for o in others)])}."
    if len(plan.free) == 1:
        ((device, free),) = plan.free.items()
        return f"It fits: it takes {amount(plan.need(device))} of the {amount(free)} that are free {_at(device)}."
    return f"It fits: it takes {amount(plan.need())} in all."


def amount(n_bytes: int) -> str:
    """Memory in GB."""
    return _gigabytes(_tenths(n_bytes)) if n_bytes <= 0 or _tenths(n_bytes) else "<0.1 GB"


def _missing(plan: Plan, device: str) -> str:
    # The difference of the figures that are shown beside it.
    tenths = _tenths(plan.need(device)) - _tenths(plan.free[device])
    return _gigabytes(tenths) if tenths else "<0.1 GB"


def _tenths(n_bytes: int) -> int:
    return round(n_bytes / 1e8)


def _gigabytes(tenths: int) -> str:
    return f"{tenths / 10:,.1f} GB"


def _at(device: str) -> str:
    return f"in {device}" if device == _HOST else f"on {visible_line(device)}"


def _planned_for(plan: Plan) -> str:
    text = f"Planned for {plan.n_ctx:,} tokens of context in a cache of {_CACHES[plan.cache_type]}"
    if len(plan.free) > 1:
        draft = f" and {plan.draft_gpu_layers or 'none'} of the draft's" if plan.has_draft else ""
        text += f"; {_layers(plan.gpu_layers)}{draft} on the GPU"
    return f"{text}."


def _layers(n: int) -> str:
    return "no layer" if n == 0 else "1 layer" if n == 1 else f"{n} layers"


def _device(plan: Plan, device: str, width: int) -> Iterator[Line]:
    free, need = plan.free[device], plan.need(device)
    parts = _parts(plan, device)
    taken = amount(need) if need else "nothing"
    figures = f"{taken} of {amount(free)}" if need <= free else f"{taken}, but {amount(free)} are free"
    name = wording.fit(visible_line(device), width - cell_len(figures) - 2)
    yield (name, "title"), (f"  {figures}", "text")
    cells = min(_BAR, width)
    scale = max(need, free, 1)
    used = cells if need >= free else min(cells - 1, max(len(parts), round(need / scale * cells)))
    bar: list[tuple[str, Role]] = []
    for (kind, _), n in zip(parts, _shares([n for _, n in parts], used), strict=True):
        filling, role = _KINDS[kind]
        bar.append((filling * n, role))
    if used < cells:
        bar.append((_FREE * (cells - used), "quiet"))
    yield tuple(bar)
    if need > free:
        limit, text = round(free / scale * cells), f"{amount(free)} free "
        yield ((f"{text}▲".rjust(limit) if limit > len(text) else f"{'▲':>{max(1, limit)}} {text}", "text"),)
    yield from _legend(parts, width)


def _parts(plan: Plan, device: str) -> list[tuple[str, int]]:
    found = dict.fromkeys(_KINDS, 0)
    for part in plan.parts:
        if part.device == device:
            found[_kind(part)] += part.bytes
    return [(kind, n) for kind, n in found.items() if n > 0]


def _kind(part: Part) -> str:
    return part.what if part.of == "target" else part.of


def _shares(sizes: list[int], cells: int) -> list[int]:
    """`cells` given out by size; the smallest part is seen, too, at the cost of the largest one."""
    total = sum(sizes)
    shares = [max(1, round(size / total * cells)) for size in sizes]
    if shares:
        shares[shares.index(max(shares))] += cells - sum(shares)
    return shares


def _legend(parts: list[tuple[str, int]], width: int) -> Iterator[Line]:
    line: list[tuple[str, Role]] = []
    taken = 0
    for kind, n in parts:
        filling, role = _KINDS[kind]
        text = f" {kind} {amount(n)}"
        gap = "   " if line else ""
        if line and taken + len(gap) + 1 + len(text) > min(width, _READABLE):
            yield tuple(line)
            line, taken, gap = [], 0, ""
        line += [(gap, "text"), (filling, role), (text, "text")]
        taken += len(gap) + 1 + len(text)
    if line:
        yield tuple(line)
