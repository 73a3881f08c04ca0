"""The race: one prompt, two ways of decoding side by side."""

from __future__ import annotations

import logging
from concurrent.futures import CancelledError
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static

from pardec_chat.app.messages import LoadFailed, LoadProgress, ModelLoaded, PromptSubmitted, TurnEvents
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.screens.choosing import choose_contestant
from pardec_chat.app.screens.contest import Contest, Runner
from pardec_chat.app.screens.help import HelpScreen
from pardec_chat.app.screens.session import Session
from pardec_chat.app.widgets.header import Header
from pardec_chat.app.widgets.lane import Lane
from pardec_chat.app.widgets.pacer import Pacer
from pardec_chat.app.widgets.prompt import Prompt
from pardec_chat.app.widgets.readout import Readout

logger = logging.getLogger(__name__)

_SIDES = ("left", "right")
_RULES = (
    "Both get the same prompt, the same seed and at most {limit:,} tokens. They are decoded in turn, a step each: tok/s "
    "counts each one's own time."
)
_EMPTY = "{key} chooses who runs here."
_ENDS = {"stop": "done", "length": "limit", "cancelled": "stopped"}


class RaceScreen(Screen[BaseException | None]):
    """Gives the error where the models could not be loaded for it. The chat has to load its own again afterwards."""

    CSS_PATH = "race.tcss"
    AUTO_FOCUS = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012  # the name and the kind are Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "start", "start", tooltip="Start the race", id="race-start"),
        Binding("1", "choose(0)", "left", tooltip="Who runs on the left", id="race-left"),
        Binding("2", "choose(1)", "right", tooltip="Who runs on the right", id="race-right"),
        Binding("tab", "app.focus_next", "next", tooltip="To the prompt, to a lane", id="race-next"),
        Binding("escape", "stop", "stop", key_display="esc", tooltip="End the race; what came stays", id="race-stop"),
        Binding("escape", "leave", "leave", key_display="esc", tooltip="Back to the chat", id="race-leave"),
        Binding("f1", "help", "keys", key_display="F1", tooltip="All keys, what the figures mean", id="race-help"),
    ]

    def __init__(self, chat: Session, first_prompt: str = "") -> None:
        super().__init__()
        self.contest = Contest(chat, self)
        self._first_prompt = first_prompt
        self._failure: BaseException | None = None
        self._pace = Pacer(self, self._draw, lambda: chat.leaves_room)

    # ---- what is seen ----

    def compose(self) -> ComposeResult:
        """Title line, prompt, lanes, verdict, keys."""
        yield Header()
        with Horizontal(id="entry"):
            yield Static("›", id="glyph")
            yield Prompt()
        with Horizontal(id="lanes"):
            yield Lane(0)
            yield Lane(1)
        yield Static(id="verdict")
        yield Footer(compact=True, show_command_palette=False)

    @property
    def prompt(self) -> Prompt:
        """What both are to answer."""
        return self.query_one(Prompt)

    def on_mount(self) -> None:
        """Begin at the lanes where there is a prompt already, so that the keys mean lanes."""
        self.prompt.placeholder = "What both are to answer"
        if self._first_prompt:
            self.prompt.give_back(self._first_prompt)
            self.query(Lane).first().take_focus()
        else:
            self.prompt.focus()
        self.contest.load()
        self._show_state()

    def _show_state(self) -> None:
        self._show_all()
        self.refresh_bindings()

    async def _draw(self) -> None:
        self._show_all()

    def _show_all(self) -> None:
        contest = self.contest
        header = self.query_one(Header)
        header.names, header.state = contest.models.names, contest.state
        for lane, runner in zip(self.query(Lane), contest.runners, strict=True):
            self._show_lane(lane, runner)
        outcome = visible_line(contest.outcome)
        rules = _RULES.format(limit=contest.max_tokens)
        self.query_one("#verdict", Static).update(Content(outcome) if outcome else Content.styled(rules, "$quiet"))

    def _show_lane(self, lane: Lane, runner: Runner) -> None:
        answer, contestant, limit = runner.answer, runner.contestant, self.contest.max_tokens
        lane.name_racer(contestant.title)
        if answer is None:
            empty = _EMPTY.format(key=lane.side + 1)
            readout = Readout(contestant.method, contestant.depth or 0)
            lane.show("", instead=empty, readout=readout, end="", limit=limit)
            return
        end = _ENDS[answer.finished.finish_reason] if answer.finished else "failed" if answer.error else ""
        readout = answer.readout(contestant.method, contestant.depth or 0, 0)
        lane.show(answer.text, instead="" if answer.over else answer.state, readout=readout, end=end, limit=limit)

    # ---- its models ----

    @on(LoadProgress)
    def show_progress(self, message: LoadProgress) -> None:
        """A part of the file was read."""
        if self.contest.models.loading is not None:
            self.contest.models.take_progress(message.done)
            self._pace()

    @on(ModelLoaded)
    def take_models(self, message: ModelLoaded) -> None:
        """The race can begin."""
        for notice in self.contest.take_loaded(message.loaded):
            self.notify(visible_line(notice), markup=False)
        self._show_state()

    @on(LoadFailed)
    def give_up(self, message: LoadFailed) -> None:
        """There will be no race; the chat says why."""
        if isinstance(message.error, CancelledError):
            return  # the app is being left
        self._failure = message.error
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """Leave as soon as no list or menu is open over this screen."""
        # Not `is_current`: that holds for what lies behind a list, too.
        if self._failure is not None and self.app.screen is self:
            failure, self._failure = self._failure, None
            self.dismiss(failure)

    # ---- a race ----

    @on(PromptSubmitted)
    def take_prompt(self, message: PromptSubmitted) -> None:
        """The prompt stays where it is, for the next race."""
        self.prompt.give_back(message.text)
        self.action_start()

    def action_start(self) -> None:
        """Both begin."""
        prompt = self.prompt.text.strip("\n")
        why_not = ""
        if not self.contest.ready:
            why_not = "A race is running: esc stops it." if self.contest.running else f"Not yet: {self.contest.state}."
        elif not prompt.strip():
            why_not = "There is no prompt yet: write one first."
            self.prompt.focus()
        if why_not:
            self.notify(why_not, markup=False)
            return
        self.contest.start(prompt)
        for lane in self.query(Lane):
            lane.follow()
        self.query(Lane).first().take_focus()
        self._show_state()

    @on(TurnEvents)
    def take_events(self, message: TurnEvents) -> None:
        """Events of one of the two; drawn soon, at the end of both at once."""
        was_running = self.contest.running
        for notice in self.contest.take(message.mailbox):
            self.notify(visible_line(notice), markup=False)
        if not was_running:
            return
        if self.contest.running:
            self._pace()
        else:
            self._pace.drop()
            self._show_state()

    # ---- what keys do ----

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape stops what runs; a race that was told to stop need not be waited for."""
        running = self.contest.running
        if action == "stop":
            return running and not self.contest.stopping
        if action == "leave":
            return not running or self.contest.stopping
        return not (running and action in {"start", "choose"})

    def action_stop(self) -> None:
        """End both answers; what came of them stays."""
        self.contest.stop()
        self._show_state()

    def action_leave(self) -> None:
        """Back to the chat."""
        self.contest.stop()
        self.dismiss(None)

    def action_read(self, where: str) -> None:
        """Read on or back in both lanes while the prompt keeps the keys."""
        for lane in self.query(Lane):
            lane.read(where)

    def action_help(self) -> None:
        """All keys, what the figures mean, and the promise."""
        self.app.push_screen(HelpScreen(("Keys", [*self.BINDINGS, *self.app.BINDINGS])))

    @on(Lane.Picked)
    def pick(self, message: Lane.Picked) -> None:
        """The mouse's way to choose."""
        if not self.contest.running:
            self.action_choose(message.side)

    @work(group="choose", exclusive=True)
    async def action_choose(self, side: int) -> None:
        """Who runs on that side."""
        now = self.contest.runners[side].contestant
        chosen = await choose_contestant(self.app, f"Who runs on the {_SIDES[side]}", now, self.contest.why_not)
        if chosen is not None:
            self.contest.choose(side, chosen)
            self._show_state()
