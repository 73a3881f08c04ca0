"""A token for the Hub: typed unseen, handed to the Hub's own login."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from pardec_chat.app.lines import wrapped
from pardec_chat.app.messages import ErrandFailed, LoggedIn
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import errand
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.picture import Picture
from pardec_chat.app.widgets.secret import Secret
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from pardec_chat.app.screens.downloads import WizardLike

_WHERE = (
    "A read token from huggingface.co/settings/tokens. It is handed to the Hub's own login, which keeps it as "
    "`hf auth login` does; this program neither keeps nor shows it."
)
_ASKING = "Asking the Hub who that is …"
_KEYS = "enter log in · esc back"


class TokenScreen(ModalScreen[str | None]):
    """Gives the name of the account, or None."""

    CSS_PATH = ["wizard.tcss", "token.tcss"]  # noqa: RUF012  # the name and the kind are Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", show=False),
        Binding("enter", "log_in", "Log in", show=False, priority=True),
    ]

    def __init__(self, wizard: WizardLike) -> None:
        super().__init__()
        self._wizard = wizard
        self._number = 0
        self._asking = False
        self._account: str | None = None

    def compose(self) -> ComposeResult:
        """Where a token comes from and where it goes, the line for it, what came of it, keys."""
        with Vertical(id="token-box"):
            yield Static(Content("A token for the Hub"), id="token-title")
            yield Picture(id="where")
            with Horizontal(id="token-line"):
                yield Static("›", classes="glyph")
                yield Secret("hf_…")
            yield Picture(id="asking")
            yield Static(Content(_KEYS), id="token-keys")

    def on_mount(self) -> None:
        """Ready to type or to paste."""
        self.query_one("#where", Picture).show(lambda width: wrapped(_WHERE, width, "quiet"))
        self.query_one(Secret).focus()

    def action_log_in(self) -> None:
        """Ask the Hub who that is."""
        token = self.query_one(Secret).take()
        if not token or self._asking:
            return
        self._number += 1
        number, wizard = self._number, self._wizard

        def work() -> LoggedIn:
            try:
                return LoggedIn(number, wizard.login(token))
            except Exception as error:  # noqa: BLE001  # raised again, without the token in it
                # Whatever a library says about it, the token is not among the words.
                what = str(error).replace(token, "…")
                if isinstance(error, UserError):
                    raise UserError(error.what.replace(token, "…"), error.next_step.replace(token, "…")) from None
                raise RuntimeError(f"{type(error).__name__}: {what}") from None

        errand.run(self, "login", number, work)
        self._show_asking(True)

    def _show_asking(self, asking: bool) -> None:
        self._asking = asking
        self.query("Note").remove()
        text = _ASKING if asking else ""
        self.query_one("#asking", Picture).show(lambda width: wrapped(text, width, "quiet"))

    @on(LoggedIn)
    def finish(self, message: LoggedIn) -> None:
        """The Hub knows it."""
        if message.number == self._number:
            self._account = message.account
            self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """Leave as soon as no menu is open over this screen."""
        if self._account is not None and self.app.screen is self:
            account, self._account = self._account, None
            self.app.notify(f"The Hub knows you as {visible_line(account)}.", markup=False)
            self.dismiss(account)

    @on(ErrandFailed)
    def tell(self, message: ErrandFailed) -> None:
        """It does not, or could not be asked."""
        if message.number == self._number:
            self._show_asking(False)
            self.query_one("#token-box").mount(Note.of(message.error), before="#token-keys")
            self.query_one(Secret).focus()

    def action_leave(self) -> None:
        """Without a token."""
        self.dismiss(None)
