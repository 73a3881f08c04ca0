"""Renders chat templates in a process of its own: `python -m pardec_chat.app.chat.template_worker`.

A template comes out of a downloaded file. The sandbox keeps it from Python's internals (CVE-2024-34359 shows why); the
process bounds what no sandbox can: its memory here, its time by the parent, who kills it.

One JSON document a line comes in: {template, messages, tools, bos_token, eos_token, limit}; one goes out: {text} or {error,
raised}. Messages have what they are given beside role and content; the template sees `tools` only where there are some.
"""

from __future__ import annotations

import json
import signal
import sys
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

_MEMORY = 1 << 30


class Refused(Exception):
    """The template itself refuses the messages, by `raise_exception`."""


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks the answer for training; its body is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012  # the name and the kind are jinja2's

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _refuse(message: str) -> NoReturn:
    raise Refused(message)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Not jinja2's own, which escapes for HTML; with the options that templates use."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
    return environment


def render(request: dict[str, Any]) -> dict[str, Any]:
    """One request answered; never raises for anything a template can do in Python."""
    try:
        template = _environment().from_string(request["template"])
        parts: list[str] = []
        size = 0
        for part in template.generate(
            messages=request["messages"],
            add_generation_prompt=True,
            bos_token=request["bos_token"],
            eos_token=request["eos_token"],
            **({"tools": request["tools"]} if request["tools"] else {}),
        ):
            parts.append(part)
            size += len(part)
            if size > request["limit"]:
                return {"error": f"it writes more than {request['limit']:,} characters", "raised": False}
        return {"text": "".join(parts)}
    except Refused as error:
        return {"error": str(error), "raised": True}
    except MemoryError:
        return {"error": "it needs too much memory", "raised": False}
    except (
        TemplateError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        return {"error": f"{type(error).__name__}: {error}", "raised": False}


def main() -> None:
    """Answer until standard input closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is the app's
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    except (ImportError, ValueError, OSError):
        pass  # no such limit here; the time limit still holds
    for line in sys.stdin:
        sys.stdout.write(json.dumps(render(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
