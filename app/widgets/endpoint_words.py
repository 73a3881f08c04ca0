"""What the endpoint's screen says beside its table: on or off, where, with which key. No widget."""

from __future__ import annotations

from typing import Protocol

from rich.cells import cell_len
from textual.content import Content

from pardec_chat.app.lines import BLANK, Line
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets.cells import left
from pardec_chat.app.widgets.endpoint_row import Row
from pardec_chat.app.widgets.wording import fit

NO_REQUEST = "No request yet."
_TITLE = "Endpoint"
_FOR = (
    "Editors, scripts and agents that speak the OpenAI API can then use the model of this chat. The models are loaded "
    "anew for it, with room for several answers at a time."
)
_DOTS = {"on": "●", "off": "○"}
_CHANGING = "◐"
_LABEL = 12
#: Sentences are not wider than this.
_WIDEST = 100
#: Shorter keys would be guessed from their ends.
_LEAST_KEY = 16
_ENDS = 4


class AddressLike(Protocol):
    """Where the endpoint listens, and the key it asks for, if any."""

    @property
    def host(self) -> str:
        """Name or number."""

    @property
    def port(self) -> int:
        """Of TCP."""

    @property
    def key(self) -> str | None:
        """A secret."""

    @property
    def url(self) -> str:
        """`http://host:port`."""


def base_url(address: AddressLike) -> str:
    """What clients call the base URL."""
    url = address.url.rstrip("/")
    return url if url.endswith("/v1") else f"{url}/v1"


def masked(key: str) -> str:
    """Enough of a key to tell it from others: sk-…abcd."""
    if len(key) < _LEAST_KEY:
        return "…"
    return f"{'sk-' if key.startswith('sk-') else ''}…{key[-_ENDS:]}"


def heading(summary: str, width: int) -> Line:
    """The title, and how many requests there are of each state."""
    return (_TITLE, "title"), (fit(f"   {summary}", max(0, width - len(_TITLE))), "quiet")


def off(port: int, width: int, *, explained: bool) -> list[Line]:
    """Where it would be; explained: and what it is for."""
    words = f"Space switches it on, at port {port} of this machine."
    return [_state("off", words, width), *(_purpose(width) if explained else [])]


def taken(port: int, offer: int, width: int) -> list[Line]:
    """The question behind a port that is somebody else's."""
    return [
        _state("off", f"Port {port} is taken. Take {offer}?", width, strong=True),
        _line("", f"enter takes {offer}, esc leaves the endpoint off", width),
    ]


def starting(port: int, width: int) -> list[Line]:
    """On its way."""
    return [
        _state("starting", "loading the models with room for several answers …", width),
        _line("port", str(port), width),
    ]


def stopping(width: int) -> list[Line]:
    """On its way out."""
    return [_state("stopping", "ending what is being answered …", width)]


def on(address: AddressLike, width: int, *, key_shown: bool = False) -> list[Line]:
    """Where it is and what a client has to be told."""
    url, key = base_url(address), address.key
    its_key = "<key>" if key else "none"
    words = "none needed" if not key else visible_line(key if key_shown else masked(key))
    # A key that is shown is shown to its end.
    first, *more = _folded(words, max(1, width - _LABEL - 2))
    use = f"OPENAI_BASE_URL={url}"
    whole = f"{use} OPENAI_API_KEY={its_key}"
    return [
        _state("on", url, width, strong=True),
        _line("key", first, width),
        *(_line("", part, width) for part in more),
        _line("clients", whole if cell_len(whole) + _LABEL + 2 <= width else use, width),
    ]


def detail(row: Row | None, width: int, height: int) -> list[Line]:
    """All of what the table may have cut, and why it failed."""
    if row is None:
        return [BLANK] * height
    lines: list[Line] = [((fit("   ".join(filter(None, (row.who, row.what, row.method))), width), "quiet"),)]
    if row.error:
        error = _folded(f"Error: {row.error}", width)
        if len(error) > height - 1:
            error = error[: height - 1]
            error[-1] = fit(error[-1] + " " * width, width)
        lines += [((text, "text"),) for text in error]
    return (lines + [BLANK] * height)[:height]


def keys(state: str, *, has_key: bool, key_shown: bool, rows: int) -> str:
    """What can be done now; state: on, off, taken, starting or stopping."""
    move = ("↑↓ move",) if rows else ()
    does = {
        "on": (
            "space off",
            "c copy address",
            *((f"k {'hide' if key_shown else 'show'} key",) if has_key else ()),
            *move,
            "esc back, it stays on",
        ),
        "off": ("space on", *move, "esc back"),
        "taken": ("enter take it", "esc leave it off"),
    }
    return " · ".join(does.get(state, (*move, "esc back, it goes on")))


def _state(state: str, text: str, width: int, *, strong: bool = False) -> Line:
    text = fit(text, max(0, width - _LABEL - 2))
    return (
        (f"{_DOTS.get(state, _CHANGING)} ", "quiet" if state == "off" else "bar"),
        (left(state, _LABEL), "value"),
        (text, "value" if strong else "text"),
    )


def _line(label: str, text: str, width: int) -> Line:
    return ("  " + left(label, _LABEL), "quiet"), (fit(text, max(0, width - _LABEL - 2)), "text")


def _purpose(width: int) -> list[Line]:
    return [BLANK, *((("  " + line, "quiet"),) for line in _folded(_FOR, min(width, _WIDEST) - 2))]


def _folded(text: str, width: int) -> list[str]:
    """On as many lines as it takes, measured by cells; words that are longer than a line are broken."""
    return [line.plain.rstrip() for line in Content(text).wrap(max(1, width))]
