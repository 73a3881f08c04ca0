"""Foreign text made harmless for a terminal.

Text of models, files and the network can hold control sequences that write the clipboard, rename the window or wipe the
screen (ECMA-48 C0 and C1). Everything that is shown goes through `visible` first.
"""

from __future__ import annotations

import json
from typing import Any

# C0 has pictures of its own in Unicode (U+2400…); C1 and the invisible direction overrides get a replacement mark.
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_PICTURES[0x7F] = 0x2421
_PICTURES.update(dict.fromkeys(range(128, 160), 65533))
# Overrides and isolates can show text in another order than it has ("trojan source"); marks U+200E/F are harmless.
_PICTURES.update(dict.fromkeys((*range(8234, 8239), *range(8294, 8298)), 65533))
# Halves of a surrogate pair, which JSON and file names can bring, have no bytes that a terminal could be sent.
_PICTURES.update(dict.fromkeys(range(0xD800, 0xE000), 65533))


def visible(text: str) -> str:
    """`text` with each control character replaced by one visible mark; line feeds and tabs stay."""
    return text.replace("\r\n", "\n").translate(_PICTURES)


def visible_line(text: str) -> str:
    """Like `visible`, on one line: for names, titles and errors."""
    return " ".join(visible(text).split())


def dump_json(document: Any) -> str:
    """One JSON document that is readable in any script and holds no control byte, C1 and DEL included."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    return "".join(f"\\u{ord(c):04x}" if 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 else c for c in text)
