"""What an empty conversation shows."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from pardec_chat.app.plain_text import visible_line


class Welcome(Static):
    """Says what will answer, and how to begin."""

    COMPONENT_CLASSES = {"name", "key"}  # noqa: RUF012  # Textual's own name and kind

    def show(self, model: str, draft: str | None, state: str) -> None:
        """Show what answers, or is on its way; without a model, how to get one."""
        if state == "no model":
            lines = [
                Content.styled("No model is loaded.", ".name"),
                Content.assemble(("F3", ".key"), " chooses one of those on this disk"),
                Content.assemble(("F7", ".key"), " gets more: downloads, or a file of yours"),
            ]
        else:
            what = "answers" if state == "ready" else state
            lines = [Content.assemble((f"{visible_line(model)} " if model else "", ".name"), what)]
            if draft:
                lines.append(Content(f"{visible_line(draft)} guesses ahead; the text stays the large model's"))
            lines += [
                Content(""),
                Content.assemble(("enter", ".key"), " sends, ", ("ctrl+j", ".key"), " begins a new line"),
                Content.assemble(("F1", ".key"), " explains every key and every figure"),
            ]
        self.update(Content("\n").join(lines))
