"""Any repository on the Hub: its name is typed, what it offers is chosen from."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from pardec_chat.app.downloads.errors import HubNeedsLogin, HubTokenLacksScope, HubTokenRefused
from pardec_chat.app.lines import BLANK, Line, wrapped
from pardec_chat.app.messages import ErrandFailed, OfferTaken, RepositoryRead
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.screens.downloads import Chosen, DownloadsScreen, WizardLike, notify_error
from pardec_chat.app.screens.token import TokenScreen
from pardec_chat.app.widgets import errand, offer_row, wording
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.entry import Entry
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.picture import Picture

if TYPE_CHECKING:
    from pardec_chat.app.downloads.repository import Repository

_TITLE = "A repository on the Hub"
_EXAMPLE = "OWNER/NAME, or the address of its page"
_HOW = "Enter asks what it holds. GGUF files can be fetched; their sizes are shown first."
_ASKING = "Asking the Hub … esc ends it."
_EMPTY = "There is nothing in it that can be fetched."
_TOKEN = "Or press t and type a token here."  # noqa: S105  # no token
_DETAIL_LINES = 2
_ANSWERS_TO_A_TOKEN = (HubNeedsLogin, HubTokenRefused, HubTokenLacksScope)


class RepositoryScreen(ModalScreen[Chosen | None]):
    """Gives what was chosen, as soon as all of it is on this disk. repo: asked for at once."""

    CSS_PATH = ["wizard.tcss", "repository.tcss"]  # noqa: RUF012  # the name and the kind are Textual's
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", show=False),
        Binding("slash", "type", "Another name", show=False),
        Binding("t", "token", "Type a token", show=False),
        Binding("r", "ask", "Ask again", show=False),
        Binding("tab,shift+tab", "other", "To the list or the name", show=False),
    ]

    def __init__(self, wizard: WizardLike, repo: str = "") -> None:
        super().__init__()
        self._wizard = wizard
        self._repo = repo
        self._number = 0
        #: Set where the answer is no longer wanted; None while nothing is asked.
        self._cancel: threading.Event | None = None
        self._repository: Repository | None = None
        self._error: BaseException | None = None

    def compose(self) -> ComposeResult:
        """Name, what is offered or why not, what there is to say about the marked one, keys."""
        yield Picture(id="head")
        with Horizontal(id="search"):
            yield Static("›", classes="glyph")
            yield Entry(_EXAMPLE)
        with VerticalScroll(id="told", can_focus=True):
            yield Picture(id="saying")
        yield Choices(click_takes=False)
        yield Picture(id="detail")
        yield Static(id="foot")

    def on_mount(self) -> None:
        """Begin with the name."""
        self._entry.value = self._repo
        self._entry.focus()
        self._draw()
        if self._repo:
            self.action_ask()

    def on_unmount(self) -> None:
        """Nobody waits for the answer any more."""
        if self._cancel is not None:
            self._cancel.set()

    @property
    def _choices(self) -> Choices:
        return self.query_one(Choices)

    @property
    def _entry(self) -> Entry:
        return self.query_one(Entry)

    # ---- asking ----

    @on(Input.Submitted)
    def action_ask(self) -> None:
        """What does it hold?"""
        repo = self._entry.value.strip()
        if not repo:
            return
        if self._cancel is not None:
            self._cancel.set()
        self._number += 1
        number, wizard = self._number, self._wizard
        cancel = self._cancel = threading.Event()
        self._repository = self._error = None
        errand.run(self, "look", number, lambda: RepositoryRead(number, wizard.look(repo, cancel)))
        self._draw()

    @on(RepositoryRead)
    def take(self, message: RepositoryRead) -> None:
        """Here is what there is."""
        if message.number != self._number or self._cancel is None:
            return
        self._cancel, self._repository = None, message.repository
        offers = message.repository.offers
        name = offer_row.longest(offers)
        self._choices.show([partial(offer_row.draw, offer, name=name) for offer in offers], 0)
        self._draw()
        (self._choices if offers else self._entry).focus()

    @on(ErrandFailed)
    def tell(self, message: ErrandFailed) -> None:
        """Why there is no answer, and what next."""
        if message.number != self._number:
            return
        if message.errand != "look":
            notify_error(self, message.error)
        elif self._cancel is not None:
            self._cancel, self._error = None, message.error
            self._draw()
            # Away from the name: letters are keys here.
            self.query_one("#told").focus()

    # ---- what is seen ----

    def _draw(self) -> None:
        repository, error = self._repository, self._error
        has_offers = repository is not None and bool(repository.offers)
        self.query_one("#head", Picture).show(lambda width: [_heading(repository, width)])
        self.query_one("#told").display = not has_offers
        self._choices.display = has_offers
        self.query("Note").remove()
        if error is not None:
            self.query_one("#told").mount(Note.of(error), before="#saying")
        answers = isinstance(error, _ANSWERS_TO_A_TOKEN)
        text = _ASKING if self._cancel else _TOKEN if answers else "" if error else _EMPTY if repository else _HOW
        self.query_one("#saying", Picture).show(lambda width: wrapped(text, min(width, 100), "quiet"))
        self._draw_detail()

    @on(Choices.Marked)
    def _draw_detail(self) -> None:
        marked, repository = self._choices.marked, self._repository
        offer = repository.offers[marked] if repository and marked is not None and repository.offers else None

        def lines(width: int) -> list[Line]:
            if offer is None:
                return [BLANK] * _DETAIL_LINES
            text = f"{visible_line(offer.name)}, {wording.size(offer.size)}"
            text += f", {offer_row.files(offer)} fetched as one" if offer_row.files(offer) else ""
            first = wording.fit(text, width)
            then = f"Not to be fetched: {visible_line(offer.use)}" if offer.use else "Enter fetches it."
            return [((first, "text"),), ((wording.fit(then, width), "quiet"),)]

        self.query_one("#detail", Picture).show(lines)
        self._draw_foot()

    def _draw_foot(self) -> None:
        if self._entry.has_focus:
            keys = "enter ask · esc end it" if self._cancel else "enter ask · tab to the list · esc back"
            keys = keys if self._cancel or self._choices.display else "enter ask · esc back"
        elif self._error is not None:
            token = "t type a token · " if isinstance(self._error, _ANSWERS_TO_A_TOKEN) else ""
            keys = f"{token}r ask again · / another name · esc back"
        else:
            keys = "↑↓ move · enter fetch · / another name · esc back"
        self.query_one("#foot", Static).update(Content(keys))

    def on_descendant_focus(self) -> None:
        """Other keys mean something now."""
        self._draw_foot()

    # ---- keys ----

    def on_key(self, event: events.Key) -> None:
        """Down from the name is into the list."""
        if event.key == "down" and self._entry.has_focus and self._choices.display:
            event.stop()
            self._choices.focus()

    def action_type(self) -> None:
        """Another name."""
        self._entry.focus()

    def action_other(self) -> None:
        """From the name to what is below, and back."""
        below = self._choices if self._choices.display else self.query_one("#told")
        (below if self._entry.has_focus else self._entry).focus()

    def action_token(self) -> None:
        """Log in, then ask again."""
        if isinstance(self._error, _ANSWERS_TO_A_TOKEN):
            self.app.push_screen(TokenScreen(self._wizard), self._ask_again)

    def _ask_again(self, account: str | None) -> None:
        if account is not None:
            self.action_ask()

    @on(Choices.Taken)
    def fetch(self, message: Choices.Taken) -> None:
        """Begin to fetch all files of the offer."""
        repository, wizard = self._repository, self._wizard
        if repository is None:
            return
        offer = repository.offers[message.index]
        if offer.use:
            self.notify(f"Not to be fetched: {visible_line(offer.use)}", markup=False)
            return
        self._number += 1
        number = self._number

        def work() -> OfferTaken:
            models = wizard.offered(repository, offer)
            wizard.downloads.start(models)
            return OfferTaken(number, models[0].id)

        errand.run(self, "offer", number, work)

    @on(OfferTaken)
    def go_on(self, message: OfferTaken) -> None:
        """See how it comes."""
        if message.number == self._number and self.app.screen is self:
            self.app.push_screen(DownloadsScreen(self._wizard, message.first), self._come_back)

    def _come_back(self, chosen: Chosen | None) -> None:
        if chosen is not None:
            self.dismiss(chosen)

    def action_leave(self) -> None:
        """End the question that waits for its answer; else back."""
        if self._cancel is None:
            self.dismiss(None)
            return
        self._cancel.set()
        self._cancel = None
        self._number += 1
        self._draw()


def _heading(repository: Repository | None, width: int) -> Line:
    if repository is None:
        return ((_TITLE, "title"),)
    name = wording.fit(visible_line(repository.repo), width - 2)
    gated = ", gated" if repository.gated else ""
    facts = (
        f"   {visible_line(repository.licence) or 'no licence given'}{gated} · at {visible_line(repository.commit[:7])}"
    )
    return (name, "title"), (wording.fit(facts, width - len(name)), "quiet")
