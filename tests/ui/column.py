"""A column of messages alone, on the looks of the app, and texts to put into it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual.app import App, ComposeResult
from textual.widget import Widget

import pardec_chat.app.screens
from pardec_chat.app import themes
from pardec_chat.app.widgets.drawn import Drawn
from pardec_chat.app.widgets.transcript import Transcript
from pardec_chat.backends.base import Method

_SHEETS = Path(pardec_chat.app.screens.__path__[0])

BLOCKS = """# A title

A paragraph with *emphasis*, **strong words**, `code`, ~~what was wrong~~ and a [link](https://example.org).
A second line, as in verse.

## Lists

- one
- two, which is so long that it does not fit on one line of a narrow screen and goes on below
  - deeper
    - deepest
- [ ] to do
- [x] done

8. eight
9. nine

   ```sh
   make test
   ```
10. ten

> A quote, *as it was said*.
> - with a list

```python
def merge(a, b):
    \"\"\"Two sorted lists in one pass.\"\"\"
    return sorted(a + b)  # a line that is long enough to need more than the width that there is on a narrow screen
```

---

The end.
"""
TABLE = """| Method | What it needs | Faster |
|:---|:---:|---:|
| draft | a second, smaller model of the same family, on the same machine | **1.7x** |
| ngram | `nothing` | 1.2x |
| 日本語 | a \\| b | 12 |
"""
SCRIPTS = """# 世界の言葉

図書館は午前九時から午後八時まで開いています。月曜日は休館です。入口は北側にあります。

- 한국어: 도서관은 아침 아홉 시에 엽니다
- עברית: הספרייה נפתחת בתשע בבוקר
- العربية: تفتح المكتبة في التاسعة صباحا
- Emoji: 👩‍👩‍👧‍👦 👍🏽 🇯🇵 ❤️ café नमस्ते

| 曜日 | 👍 |
|---|---|
| 火曜日 | ✅ |

```
全角の文字 = "👩‍🚀"
```
"""


class Column(App[None]):
    """Nothing but a `Transcript` with `widgets` in it."""

    AUTO_FOCUS = ""
    CSS_PATH = [_SHEETS / "common.tcss", _SHEETS / "chat.tcss"]  # noqa: RUF012  # the name and the kind are Textual's

    def __init__(self, *widgets: Widget, theme: str = themes.DEFAULT) -> None:
        super().__init__()
        self.animation_level = "none"
        self._widgets = widgets
        for one in themes.OURS:
            self.register_theme(one)
        self.theme = theme

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """As the app has them."""
        return themes.defaults(self.current_theme)

    def compose(self) -> ComposeResult:
        """The column."""
        yield Transcript()

    async def on_mount(self) -> None:
        """Fill it."""
        for widget in self._widgets:
            await self.transcript.add(widget)

    @property
    def transcript(self) -> Transcript:
        """The column."""
        return self.query_one(Transcript)

    def lines(self) -> list[str]:
        """What is on the screen, without the scrollbar."""
        strips = self.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip)[:-1].rstrip() for strip in strips]


def tokens(
    text: str, size: int = 4, run: Sequence[Method] = (Method.DRAFT, Method.DRAFT, Method.PLAIN)
) -> list[tuple[str, Method]]:
    """`text` in tokens of `size` characters, guessed by the methods of `run` in turn."""
    return [(text[i : i + size], run[i // size % len(run)]) for i in range(0, len(text), size)]


def drawn(widget: Drawn) -> list[str]:
    """All lines of a message as they are drawn, seen or not."""
    return ["".join(s.text for s in widget.render_line(y)).rstrip() for y in range(widget.size.height)]
