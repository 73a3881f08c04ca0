"""The questions behind F2 and F3: which method, which models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pardec_chat.app.screens.picker import Choice, Picker
from pardec_chat.app.widgets import wording
from pardec_chat.backends.base import Method

if TYPE_CHECKING:
    from textual.app import App

    from pardec_chat.app.screens.session import ModelEntry, Session

_WHAT = {
    Method.PLAIN: "Nothing guesses: the large model writes one token a step.",
    Method.DRAFT: "A small model of the same family guesses. Good for most text.",
    Method.NGRAM: "Repeats of prompt and answer are copied. Good for edits of text and code.",
}
_NO_DRAFT = "no draft"


async def choose_method(app: App[None], session: Session) -> Method | None:
    """Ask for a method; None leaves it as it is."""
    choices = [
        Choice(method.value, method.value, detail=_WHAT[method], why_not=session.why_not(method)) for method in Method
    ]
    picked = await app.push_screen_wait(Picker("Method", choices, current=session.method.value))
    return None if picked is None else Method(picked)


async def choose_models(app: App[None], session: Session) -> tuple[Path, Path | None] | None:
    """Ask for a model, then for its draft model; None leaves both as they are. Raises UserError."""
    entries = list(session.options.choices())
    by_path = {str(entry.path): entry for entry in entries}
    now = session.choice or (None, None)
    hint = "" if entries else "No model is on this disk. Leave with ctrl+q and run: pardec-chat models pull"
    while True:
        current = str(now[0])
        picked = await app.push_screen_wait(Picker("Model", [_choice(e) for e in entries], current=current, hint=hint))
        if picked is None:
            return None
        model = by_path[picked]
        drafts = [Choice(_NO_DRAFT, _NO_DRAFT, detail="The methods plain and ngram need none.")]
        # A draft that is as large as its target cannot win; the engine says which pairs fit, this only leaves those out.
        drafts += [_choice(entry) for entry in entries if entry.size_bytes < model.size_bytes]
        current = str(now[1]) if now[1] is not None and model.path == now[0] else _NO_DRAFT
        draft = await app.push_screen_wait(Picker(f"Draft model for {model.name}", drafts, current=current))
        if draft is not None:
            return model.path, None if draft == _NO_DRAFT else by_path[draft].path


def _choice(entry: ModelEntry) -> Choice:
    kind = "" if entry.kind == "chat" else f"{entry.kind}, "
    return Choice(str(entry.path), entry.name, detail=entry.id, right=kind + wording.size(entry.size_bytes))
