"""The questions behind F2, F3 and the lanes of a race: which method, which models, which contestant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pardec_chat.app.screens.contest import Contestant
from pardec_chat.app.screens.picker import Choice, Picker
from pardec_chat.app.screens.session import Models
from pardec_chat.app.widgets import wording
from pardec_chat.app.widgets.method_words import DEPTHS, WHAT
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from textual.app import App

    from pardec_chat.app.screens.session import ModelEntry, Session
    from pardec_chat.backends.errors import DoesNotFit
    from pardec_chat.backends.memory import Wish

_NO_DRAFT, _MORE = "no draft", "more"


async def choose_method(app: App[None], session: Session) -> Method | None:
    """Ask for a method; None leaves it as it is."""
    picked = await app.push_screen_wait(Picker("Method", methods(session.why_not), current=session.method.value))
    return None if picked is None else Method(picked)


async def choose_contestant(
    app: App[None], title: str, now: Contestant, why_not: Callable[[Method], str]
) -> Contestant | None:
    """Ask for a method, then how far it is to guess where that is a choice; None leaves both as they are."""
    while True:
        picked = await app.push_screen_wait(Picker(title, methods(why_not), current=now.method.value))
        if picked is None:
            return None
        method = Method(picked)
        if method not in DEPTHS:
            return Contestant(method)
        depth = await choose_depth(app, method, now.depth if method == now.method else None)
        if depth is not None:
            return Contestant(method, depth)


async def choose_depth(app: App[None], method: Method, now: int | None) -> int | None:
    """Ask how far a method that has a depth is to guess. now: where to begin; None for the usual depth."""
    from pardec_chat.app.chat.request import default_depth

    usual = default_depth(method)
    depths = [
        Choice(str(n), "1 token at a time" if n == 1 else f"{n} tokens at a time", right="usual" if n == usual else "")
        for n in DEPTHS[method]
    ]
    current = str(usual if now is None else now)
    picked = await app.push_screen_wait(Picker(f"How far {method.value} guesses", depths, current=current))
    return None if picked is None else int(picked)


def methods(why_not: Callable[[Method], str]) -> list[Choice]:
    """All of them, with what each is good for."""
    return [Choice(method.value, method.value, detail=WHAT[method], why_not=why_not(method)) for method in WHAT]


async def choose_models(app: App[None], session: Session) -> Models | None:
    """Ask for a model, then for its draft model on the same runtime; None leaves all as it is. Raises UserError."""
    entries = await asyncio.to_thread(lambda: [entry for entry in session.options.choices() if entry.runs()])
    by_id = {_id(entry.path, entry.runtime): entry for entry in entries}
    now = session.choice
    current_model = "" if now is None else _id(now.model, now.runtime)
    models = [_choice(entry) for entry in entries]
    hint = "" if entries else "No model is on this disk."
    if session.options.wizard is not None:
        models.append(Choice(_MORE, "More models…", detail="Download one, or take a file of yours.", right="F7"))
    while True:
        picked = await app.push_screen_wait(Picker("Model", models, current=current_model, hint=hint))
        if picked is None:
            return None
        if picked == _MORE:
            return await get_models(app, session)
        model = by_id[picked]
        # A draft that is as large as its target cannot win.
        others = [entry for entry in entries if entry.size_bytes < model.size_bytes and entry.runtime == model.runtime]
        drafts = [Choice(_NO_DRAFT, _NO_DRAFT, detail="The methods plain, ngram and lookahead need none.")]
        drafts += [await asyncio.to_thread(_judged, session, model, entry) for entry in others]
        current = _NO_DRAFT
        if now is not None and now.draft is not None and picked == current_model:
            current = _id(now.draft, now.runtime)
        draft = await app.push_screen_wait(Picker(f"Draft model for {model.name}", drafts, current=current))
        if draft is not None:
            return Models(model.path, None if draft == _NO_DRAFT else by_id[draft].path, model.runtime)


async def get_models(app: App[None], session: Session, *, first: bool = False) -> Models | None:
    """Get more models and choose one of them; None when nothing was chosen. first: there is none here yet."""
    # Its lists and sizes are not needed before somebody asks.
    from pardec_chat.app.screens.wizard import WizardScreen

    chosen = await app.push_screen_wait(WizardScreen(await session.wizard(), first))
    return None if chosen is None else Models(chosen.model, chosen.draft)


async def choose_way(
    app: App[None], error: DoesNotFit, names: tuple[str, str | None]
) -> Wish | Literal["force"] | None:
    """Ask what to give up for a model that does not fit; None gives it up."""
    from pardec_chat.app.screens.memory import MemoryScreen

    return await app.push_screen_wait(MemoryScreen(error.plan, error.alternatives, names))


def _judged(session: Session, target: ModelEntry, draft: ModelEntry) -> Choice:
    """A draft model with what its file says about this target."""
    choice = _choice(draft)
    # Only files are read before a load; the pair of a folder is judged with it.
    if session.options.verdict is None or target.path.is_dir() or draft.path.is_dir():
        return choice
    try:
        verdict = session.options.verdict(target.path, draft.path)
    except UserError as error:
        return replace(choice, why_not=error.what)
    if verdict.verdict == "impossible":
        return replace(choice, why_not=verdict.reasons[0])
    return replace(choice, detail=" ".join(verdict.reasons))


def _choice(entry: ModelEntry) -> Choice:
    kind = "" if entry.kind == "chat" else f"{entry.kind}, "
    detail = entry.id if entry.runtime is None else f"{entry.id} · on {entry.runtime}"
    right = kind + wording.size(entry.size_bytes)
    return Choice(_id(entry.path, entry.runtime), entry.name, detail=detail, right=right)


def _id(path: Path, runtime: str | None) -> str:
    return str(path) if runtime is None else f"{runtime} {path}"
