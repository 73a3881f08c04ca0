"""The chat: the conversation that is shown, the list of all of them, and what keys do with both."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from pardec_chat.app.messages import ConversationRead, KeepingFailed, Progressed, post
from pardec_chat.app.screens.help import HelpScreen
from pardec_chat.app.screens.session import ChatOptions, EngineLike
from pardec_chat.app.screens.shelf import Shelf
from pardec_chat.app.screens.talk import PLACES, Place
from pardec_chat.app.screens.tools import ToolsScreen
from pardec_chat.app.widgets.conversation_list import ConversationList
from pardec_chat.app.widgets.header import Header
from pardec_chat.app.widgets.keys import Keys
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.pacer import Pacer
from pardec_chat.app.widgets.prompt import Prompt
from pardec_chat.app.widgets.sidebar import Sidebar
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from pardec_chat.app.settings import Chat, Look, Settings

logger = logging.getLogger(__name__)

#: From this width on the panel stands beside the conversation unless the user wants it otherwise; and the list.
_WIDE, LIST_BESIDE = 100, 120
#: Keys that the line at the bottom shows only where it is so wide.
_WHERE = {"f4": "-needs-wide", "ctrl+t": "-needs-broad", "f5": "-needs-broad"}
_OF_ROWS = tuple(binding.key for _, binding in ConversationList._merge_bindings())
_NOT_OF_MESSAGES = ("ctrl+r", "ctrl+n", "ctrl+t", "f2", "f3", "f4", "f5")
#: What writing the last messages down may take at the end.
_WRITE_SECONDS = 1.0


class ChatScreen(ToolsScreen):
    """Puts list and conversation where there is room for them, and hands keys on to whom they concern."""

    AUTO_FOCUS = "Prompt"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_WIDE, "-wide"), (LIST_BESIDE, "-broad")]  # noqa: RUF012  # the name and the kind are Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "stop", key_display="esc", tooltip="End the answer; what came stays", id="stop"),
        Binding("ctrl+r", "again", "again", tooltip="Another answer to the last message", id="again"),
        Binding("ctrl+n", "new", "new", tooltip="A new conversation", id="new"),
        Binding("ctrl+l", "list", "list", tooltip="All conversations, and a search in them", id="list"),
        Binding("ctrl+t", "tint", "tint", tooltip="Show what guessed each token", id="tint"),
        Binding("f2", "choose_method", "method", key_display="F2", tooltip="What guesses ahead", id="method"),
        Binding("f3", "choose_models", "model", key_display="F3", tooltip="Model and draft model", id="model"),
        Binding("f4", "pays", "pays?", key_display="F4", tooltip="Whether guessing pays here, and why", id="pays"),
        Binding("f5", "figures", "panel", key_display="F5", tooltip="Figures: panel, one line, none", id="panel"),
        # With priority, since a text area marks a line with F6 and all with F7.
        Binding(
            "f6",
            "race",
            "race",
            show=False,
            key_display="F6",
            priority=True,
            tooltip="Two methods side by side",
            id="race",
        ),
        Binding(
            "f7",
            "get_models",
            "get",
            show=False,
            key_display="F7",
            priority=True,
            tooltip="More models: download one, or take a file of yours",
            id="get",
        ),
        # With priority, since a text area goes to the line's end with it; so does the key of that name.
        Binding(
            "ctrl+e",
            "endpoint",
            "endpoint",
            show=False,
            priority=True,
            tooltip="The endpoint: other programs ask this model",
            id="endpoint",
        ),
        Binding(
            "f8", "steps", "steps", show=False, key_display="F8", tooltip="The last steps, guess by guess", id="steps"
        ),
        Binding(
            "f9",
            "control",
            "control",
            show=False,
            key_display="F9",
            tooltip="What answers are asked with: method, sampling, system prompt, presets",
            id="control",
        ),
        Binding(
            "ctrl+g",
            "history",
            "figures",
            show=False,
            tooltip="The figures of this conversation over time",
            id="history",
        ),
        Binding("ctrl+o", "attach", "attach", show=False, tooltip="Add a text file to the next message", id="attach"),
        Binding(
            "f10",
            "details",
            "details",
            show=False,
            key_display="F10",
            tooltip="What is known about the last error",
            id="details",
        ),
        Binding("f1", "help", "keys", key_display="F1", tooltip="All keys, what the figures mean", id="help"),
    ]

    def __init__(self, options: ChatOptions, make_engine: Callable[[], EngineLike]) -> None:
        super().__init__(options, make_engine)
        # Where the figures are, and whether the list is seen, as the user wants it; None leaves it to the width.
        self._figures: Place | None = None
        self._list: bool | None = None
        # What the list says about the conversation that is shown.
        self._listed = ("", "", 0.0)
        self._pace = Pacer(self, self._show_progress, lambda: self.session.leaves_room)
        self._told_of_keeping = ""
        # The settings as they were taken over last.
        self._look: Look | None = None
        self._chat: Chat | None = None

    # ---- what is seen ----

    def compose(self) -> ComposeResult:
        """Title line, the list beside the conversation, keys."""
        yield Header()
        with Horizontal(id="desk"):
            yield Shelf()
            yield self.talk
        yield Keys(_WHERE, self._keys_left_out)

    def _keys_left_out(self) -> tuple[str, ...]:
        """Keys that give way in the line at the bottom, though they work: others, or the list itself, show what goes there."""
        if self.talk.focused_message is not None:
            return _NOT_OF_MESSAGES
        if self.query(Shelf) and self.shelf.has_focus_within:
            return tuple(binding.key for _, binding in Sidebar._merge_bindings()) + _OF_ROWS
        return ()

    @property
    def shelf(self) -> Shelf:
        """The list of conversations."""
        return self.query_one(Shelf)

    @property
    def prompt(self) -> Prompt:
        """Where the user writes."""
        return self.talk.prompt

    def on_mount(self) -> None:
        """Everything slow begins behind the first paint."""
        self._place()
        self.show_state()
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        options = self.session.options
        self.session.start()
        if options.keeper is not None:
            self.dialogue.keeper = self.shelf.keeper = options.keeper(self._tell_keeping)
            self.shelf.refresh_list()
        if options.model is None and options.wizard is not None and not options.choices():
            self.get_models(first=True)

    def on_resize(self) -> None:
        """List and figures go where there is room."""
        self._place()

    def _place(self) -> None:
        self.talk.place = self.figures
        shown, width = self.list_shown, self.app.size.width
        self.set_class(shown and width >= LIST_BESIDE, "-list-beside")
        self.set_class(shown and width < LIST_BESIDE, "-list-over")

    @property
    def figures(self) -> Place:
        """Where the figures are: as the user wants, else as the width allows."""
        return self._figures or ("panel" if self.app.size.width >= _WIDE else "line")

    @property
    def list_shown(self) -> bool:
        """Whether the list is seen: as the user wants, else where it fits beside the conversation."""
        if self._list is None:
            return self.session.options.keeper is not None and self.app.size.width >= LIST_BESIDE
        return self._list

    @property
    def state(self) -> str:
        """What is going on, in words."""
        session, turn = self.session, self.dialogue.turn
        if session.loading is not None:
            return session.load_state
        if turn is not None and not turn.answer.over:
            return turn.answer.state
        if session.engine is None:
            return "no engine" if session.broken else "starting"
        return "no model" if session.loaded is None else "ready"

    def show_state(self) -> None:
        """Title line, prompt and figures as things are now."""
        header = self.query_one(Header)
        header.names, header.endpoint = self.session.names, self.session.listening
        header.state = self.state
        self.talk.show_state()

    def show_progress(self) -> None:
        """How far a load is, soon."""
        self._pace()

    async def _show_progress(self) -> None:
        self.query_one(Header).state = self.state
        self.talk.show_figures()

    @on(Progressed)
    def follow(self) -> None:
        """The title line says what the conversation does; the list, which one it is and when it was written to."""
        self.query_one(Header).state = self.state
        conversation = self.dialogue.conversation
        self.shelf.show_current(conversation.id)
        mark = (conversation.id, conversation.title, conversation.updated)
        if mark != self._listed and conversation.nodes:
            self._listed = mark
            self.shelf.refresh_list()

    async def note(self, note: Note) -> None:
        """A line of the program's own in the conversation."""
        await self.talk.note(note)

    def take_new_model(self) -> None:
        """The figures of the model before say nothing about this one."""
        if not self.dialogue.busy:
            self.dialogue.turn = None
        self.prompt.focus()

    # ---- conversations ----

    def list_changed(self) -> None:
        """There are other conversations than before."""
        self.shelf.refresh_list()

    @on(ConversationRead)
    async def show_conversation(self, message: ConversationRead) -> None:
        """Show what was read."""
        if message.conversation.id != self.dialogue.conversation.id:
            await self.talk.show(message.conversation)
        self.leave_list()

    @on(Shelf.Gone)
    async def leave_deleted(self, message: Shelf.Gone) -> None:
        """The conversation that is shown was deleted: begin a new one."""
        self.dialogue.forget(message.id)
        if message.id == self.dialogue.conversation.id:
            await self.talk.clear()

    @on(Shelf.Renamed)
    def take_title(self, message: Shelf.Renamed) -> None:
        """The conversation that is shown has another name."""
        conversation = self.dialogue.conversation
        if message.id == conversation.id:
            conversation.title, conversation.title_by = message.title, "user"

    @on(Shelf.Pinned)
    def take_pin(self, message: Shelf.Pinned) -> None:
        """The conversation that is shown was pinned, or no longer is."""
        if message.id == self.dialogue.conversation.id:
            self.dialogue.conversation.pinned = message.pinned

    @on(Sidebar.Left)
    def leave_list(self) -> None:
        """Back to the prompt; over the conversation the list goes away."""
        if self.app.size.width < LIST_BESIDE:
            self._list = None
            self._place()
        self.prompt.focus()

    @on(Sidebar.NewAsked)
    async def begin_new(self) -> None:
        """A new conversation, from the list."""
        await self.action_new()

    def _tell_keeping(self, error: UserError) -> None:
        post(self, KeepingFailed(error))  # called on the keeper's thread

    @on(KeepingFailed)
    async def tell_keeping(self, message: KeepingFailed) -> None:
        """Say it once, not with every message."""
        words = str(message.error)
        if not isinstance(message.error, UserError):
            logger.error("conversations", exc_info=message.error)
        if words != self._told_of_keeping:
            self._told_of_keeping = words
            await self.note(Note.of(message.error, "Conversations are not kept at present."))

    def action_list(self) -> None:
        """To the list, and back from it."""
        if self.list_shown and self.shelf.has_focus_within:
            self._list = False
            self._place()
            self.prompt.focus()
        else:
            self._list = True
            self._place()
            self.shelf.sidebar.enter()

    async def action_new(self) -> None:
        """A new conversation."""
        await self.talk.clear()
        self.leave_list()

    def follow_settings(self, settings: Settings) -> None:
        """What the user's file says, now and whenever it is changed."""
        look = settings.look
        if look != self._look:
            self._look = look
            self._figures = None if look.figures == "auto" else look.figures
            self._list = {"auto": None, "shown": True, "hidden": False}[look.conversations]
            self.talk.tinted = look.tint
            self._place()
        if not self.dialogue.conversation.nodes and settings.chat != self._chat:
            self.use(
                replace(self.session.options.setup(), model=self.session.setup.model, draft=self.session.setup.draft)
            )
        self._chat = settings.chat

    def close(self, timeout: float) -> None:
        """End all that runs, what was said kept; waits `timeout` seconds at most in all, and is harmless when done twice."""
        end = monotonic() + timeout
        for prompt in self.query(Prompt):  # none any more when the app is over
            self.dialogue.keep_unsent(prompt.text)
        self.dialogue.close()
        if self.dialogue.keeper is not None:
            self.dialogue.keeper.close(max(_WRITE_SECONDS if timeout else 0.0, end - monotonic()))
        self.session.close(max(0.0, end - monotonic()))

    # ---- what keys do ----

    def action_stop(self) -> None:
        """End what is on its way: a load, an answer, the editing of a message."""
        if self.session.give_up_load():
            self.show_state()
        elif not self.talk.stop() and not self.talk.leave_editing():
            self.prompt.focus()

    async def action_again(self) -> None:
        """Another answer to the last message, beside the last one."""
        answer = self.dialogue.last_answer
        if answer is None:
            self.notify("There is nothing to answer again yet.", markup=False)
        elif self.talk.can_answer(stopping=True):
            await self.talk.again(answer)

    def action_tint(self) -> None:
        """What guessed each token, on and off."""
        self.talk.tinted = not self.talk.tinted

    def action_steps(self) -> None:
        """The steps of the last answer, or of the one that is being written."""
        self.talk.actions.steps(self.dialogue.last_answer)

    def action_figures(self) -> None:
        """The next place for the figures."""
        self._figures = PLACES[(PLACES.index(self.figures) + 1) % len(PLACES)]
        self._place()

    def action_help(self) -> None:
        """All keys, what the figures mean, and the promise."""
        here = ("Keys", [*self.BINDINGS, *self.app.BINDINGS])
        list_ = [*ConversationList.BINDINGS, *Sidebar.BINDINGS]
        self.app.push_screen(HelpScreen(here, ("Keys of a message", self.talk.BINDINGS), ("Keys of the list", list_)))

    def action_read(self, where: str) -> None:
        """Read on or back while the prompt keeps the keys."""
        self.talk.transcript.read(where)
