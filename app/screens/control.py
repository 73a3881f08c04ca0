"""Everything that the answers of a conversation are asked with, in one panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import ContentSwitcher, Input, Static

from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.lines import Line, wrapped
from pardec_chat.app.plain_text import visible, visible_line
from pardec_chat.app.screens import choosing, presets
from pardec_chat.app.screens.picker import Picker
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.editor import Editor
from pardec_chat.app.widgets.entry import Entry
from pardec_chat.app.widgets.panel import GAPS, NUMBERS, ROWS, Apply, Panel
from pardec_chat.app.widgets.picture import Picture
from pardec_chat.app.widgets.setting_list import MARK_CELLS, SettingList
from pardec_chat.app.widgets.setting_row import SIGN, VALUE_AT
from pardec_chat.app.widgets.wording import spread
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import UserError

_SETTINGS = ("Settings", "  changes hold from the next answer on", f"{SIGN}not the default")
_SYSTEM = ("System prompt", "  what the model is told before the conversation", "")
_NO_SYSTEM = "Nothing: the model begins with the conversation."
_DETAIL_LINES = 2
_ERROR = "Error: "


@dataclass(frozen=True, slots=True)
class Changed:
    """setup: what answers are asked with from now on. models: other models are to be chosen next."""

    setup: Setup
    models: bool = False


class ControlScreen(ModalScreen[Changed | None]):
    """Gives what was changed, or None where nothing was.

    models: names of the setup's model and draft. why_not: why a method cannot be chosen, empty where it can.
    presets: by name; each makes of a setup what it is with the preset. save_preset keeps the setup under a name, also
    where there is one of that name; delete_preset forgets it. Both may raise UserError. defaults: what a new
    conversation has.
    """

    CSS_PATH = "control.tcss"
    AUTO_FOCUS = "SettingList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back", tooltip="Back; what was set holds", show=False, id="control-leave"),
        Binding("backspace,delete", "reset", "Default", tooltip="The default value", show=False, id="control-reset"),
        Binding("ctrl+z", "undo", "Undo", tooltip="As it was before", show=False, id="control-undo"),
        Binding("s", "save", "Save", tooltip="Save all this as a preset", show=False, id="control-save"),
        Binding("x", "delete", "Delete", tooltip="Delete a preset", show=False, id="control-delete"),
    ]

    def __init__(
        self,
        setup: Setup,
        models: tuple[str, str | None],
        why_not: Callable[[Method], str],
        presets: Sequence[tuple[str, Apply]],
        save_preset: Callable[[str, Setup], None],
        delete_preset: Callable[[str], None],
        defaults: Setup | None = None,
    ) -> None:
        super().__init__()
        self._panel = Panel(setup, models, why_not, presets, Setup() if defaults is None else defaults)
        self._save_preset = save_preset
        self._delete_preset = delete_preset
        #: The row whose value is being typed; of `preset`, a name to save under.
        self._typing = ""
        self._error = ""

    # ---- what is seen ----

    def compose(self) -> ComposeResult:
        """The rows or the system prompt, what there is to say about the marked row, keys."""
        with Vertical(id="panel"):
            yield Picture(id="title")
            with ContentSwitcher(initial="rows"):
                with Container(id="rows"):
                    yield SettingList()
                    yield Entry()
                yield Editor(_NO_SYSTEM, id="system")
            yield Picture(id="about")
            yield Static(id="foot")

    def on_mount(self) -> None:
        """As things are now."""
        self._entry.display = False
        self.watch(self._list, "scroll_y", self._place_entry, init=False)
        self._draw()

    def on_resize(self) -> None:
        """What is typed stays on its row."""
        self.call_after_refresh(self._place_entry)

    @property
    def _list(self) -> SettingList:
        return self.query_one(SettingList)

    @property
    def _entry(self) -> Entry:
        return self.query_one(Entry)

    @property
    def _editing(self) -> bool:
        return self.query_one(ContentSwitcher).current == "system"

    @property
    def _marked(self) -> str:
        return ROWS[self._list.marked or 0]

    def _draw(self) -> None:
        self.set_class(self._editing, "-editing")
        title, rest, sign = _SYSTEM if self._editing else _SETTINGS
        self.query_one("#title", Picture).show(
            lambda width: [((title, "title"), (spread(rest, sign, width - len(title)), "quiet"))]
        )
        marked = "" if self._typing else self._marked
        self._list.show_settings([self._panel.row(key, marked=key == marked) for key in ROWS], GAPS)
        self.query_one("#about", Picture).show(self._about)
        self.query_one("#foot", Static).update(Content(self._keys()))

    def _about(self, width: int) -> Sequence[Line]:
        if self._error:
            (first, _), *rest = (line[0] for line in wrapped(f"{_ERROR}{self._error}", width)[:_DETAIL_LINES])
            return [((_ERROR, "value"), (first.removeprefix(_ERROR), "text")), *((part,) for part in rest)]
        return wrapped(visible_line(self._panel.about(self._marked)), width, "quiet")[:_DETAIL_LINES]

    def _keys(self) -> str:
        if self._editing:
            return "enter new line · ^Z undo · esc keep it and go back"
        if self._typing:
            return f"enter {'save' if self._typing == 'preset' else 'take'} · esc leave it as it was"
        change, take, reset = "←→ change · ", "choose", " · del default"
        if self._marked == "preset":
            change, reset = "", " · s save · x delete"
        elif self._marked in ("model", "draft"):
            change, reset = "", ""
        elif self._marked == "system":
            change, take = "", "write"
        elif self._marked != "method":
            take = "type"
        undo = " · ^Z undo" if self._panel.can_undo else ""
        return f"↑↓ move · {change}enter {take}{reset}{undo} · esc back"

    # ---- other values ----

    def _do(self, change: Callable[[], None]) -> bool:
        """Do something, or tell why it cannot be done."""
        self._error = ""
        try:
            change()
        except UserError as error:
            self._error = visible_line(str(error))
        self._draw()
        return not self._error

    @on(SettingList.Stepped)
    def step(self, message: SettingList.Stepped) -> None:
        """Another value of those that are at hand."""
        self._do(partial(self._panel.step, ROWS[message.index], message.by))

    def action_reset(self) -> None:
        """The default of the marked row."""
        self._do(partial(self._panel.reset, self._marked))

    def action_undo(self) -> None:
        """As it was before the last change."""
        self._do(self._panel.undo)

    @on(Choices.Taken)
    def take(self) -> None:
        """Type, write or choose what the marked row holds."""
        key = self._marked
        if self._typing:
            self._take_typed()
        elif key in NUMBERS:
            self._type(key, NUMBERS[key].exact(self._panel.setup))
        elif key == "system":
            self._edit()
        elif key == "method":
            self._choose_method()
        elif key == "preset":
            self._choose_preset()
        else:
            self.dismiss(Changed(self._panel.setup, models=True))

    @work
    async def _choose_method(self) -> None:
        choices, now = choosing.methods(self._panel.why_not), self._panel.setup.method
        picked = await self.app.push_screen_wait(Picker("Method", choices, current=now))
        if picked is not None:
            self._do(partial(self._panel.set_method, Method(picked)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of the rows mean nothing beside them."""
        if action in ("reset", "undo", "save", "delete") and (self._typing or self._editing):
            return False
        return self._marked == "preset" if action in ("save", "delete") else True

    # ---- typing ----

    @on(SettingList.Typed)
    def begin(self, message: SettingList.Typed) -> None:
        """A digit is the first one of a value, or came while the line for it was not ready."""
        if self._typing:
            self._entry.insert_text_at_cursor(message.text)
        elif (key := ROWS[message.index]) in NUMBERS:
            self._type(key, message.text, replaces=False)

    def _type(self, key: str, text: str, *, replaces: bool = True) -> None:
        """replaces: what is typed takes the place of `text`."""
        if key in NUMBERS and not self._do(partial(NUMBERS[key].check, self._panel.setup)):
            return
        self._typing = key
        entry = self._entry
        entry.value, entry.display = text, True
        entry.cursor_position = len(text)
        if replaces:
            entry.action_select_all()
        self._place_entry()
        entry.focus()
        self._draw()

    def _place_entry(self) -> None:
        if self._typing:
            x = MARK_CELLS + VALUE_AT
            self._entry.styles.offset = (x, self._list.line_of(ROWS.index(self._typing)))
            self._entry.styles.width = max(1, self._list.scrollable_content_region.width - x)

    @on(Input.Submitted)
    def _take_typed(self) -> None:
        key, text = self._typing, self._entry.value
        if key == "preset":
            self._save(visible_line(text))
        elif key and self._do(partial(self._panel.type, key, text)):
            self._end_typing()

    def _end_typing(self) -> None:
        self._typing, self._error = "", ""
        self._entry.display = False
        self._list.focus()
        self._draw()

    @on(Input.Changed)
    def forget_error(self) -> None:
        """It is being mended."""
        if self._typing:
            self._error = ""
            self._draw()

    @on(Choices.Marked)
    def leave_row(self) -> None:
        """A number that was typed on another row is taken; where that is wrong, the mark stays there."""
        if not self._typing:
            self._error = ""
        elif self._typing != self._marked:
            if self._typing != "preset":
                self._take_typed()
            if self._typing:
                self._list.marked = ROWS.index(self._typing)
        self._draw()

    # ---- the system prompt ----

    def _edit(self) -> None:
        editor = self.query_one(Editor)
        editor.text = visible(self._panel.setup.system)
        editor.move_cursor(editor.document.end)
        self.query_one(ContentSwitcher).current = "system"
        editor.focus()
        self._draw()

    def _end_editing(self) -> None:
        text, setup = self.query_one(Editor).text, self._panel.setup
        self.query_one(ContentSwitcher).current = "rows"
        self._list.focus()
        # What was only looked at stays as it is, to the byte.
        system = setup.system if text == visible(setup.system) else text if text.strip() else ""
        self._do(partial(self._panel.set, replace(setup, system=system)))

    # ---- presets ----

    @work
    async def _choose_preset(self) -> None:
        picked = await presets.choose_preset(self.app, self._panel)
        if picked is not None:
            self._do(partial(self._panel.take_preset, *picked))

    def action_save(self) -> None:
        """Ask for a name."""
        self._type("preset", self._panel.preset or "")

    @work(exclusive=True, group="save")
    async def _save(self, name: str) -> None:
        if not name:
            self._error = "A preset needs a name."
            self._draw()
        elif name not in self._panel.presets or await presets.may_overwrite(self.app, name):

            def save() -> None:
                self._save_preset(name, self._panel.setup)
                self._panel.saved(name)

            if self._do(save):
                self._end_typing()

    @work
    async def action_delete(self) -> None:
        """Ask which one."""
        name = await presets.choose_to_delete(self.app, self._panel)
        if name is not None:

            def delete() -> None:
                self._delete_preset(name)
                self._panel.deleted(name)

            self._do(delete)

    # ---- the way back ----

    def on_click(self, event: events.Click) -> None:
        """Beside the panel is back."""
        if not self.query_one("#panel").region.contains_point(event.screen_offset):
            self.action_leave()

    def action_leave(self) -> None:
        """One step back; what is set holds, what is half typed does not."""
        if self._editing:
            self._end_editing()
        elif self._typing:
            self._end_typing()
        else:
            self.dismiss(Changed(self._panel.setup) if self._panel.changed else None)
