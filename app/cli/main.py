"""The command `pardec-chat`: without a word it opens the app, with one it works without a terminal."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pardec_chat.app.cli import ask, bench, check, doctor, models, serve, tui
from pardec_chat.app.cli.output import INTERRUPTED, described, print_error, print_json


class _Version(argparse.Action):
    """Looks the version up only when it is asked for: the metadata costs more than all of the parsing."""

    def __call__(self, parser: argparse.ArgumentParser, *_arguments: object) -> None:
        from importlib.metadata import version

        print(f"pardec-chat {version('pardec-chat')}")
        parser.exit()


_WORDS = {"ask": ask, "serve": serve, "models": models, "bench": bench, "check": check, "doctor": doctor}
_DESCRIPTION = "Chat with a local model in the terminal, faster by parallel decoding, with its output unchanged."


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """The app and the words share option names: two parsers, so that no option is taken by one and dropped by the other."""
    if argv and argv[0] in _WORDS:
        parser = argparse.ArgumentParser(prog="pardec-chat", description=_DESCRIPTION)
        words = parser.add_subparsers()
        _WORDS[argv[0]].add_parser(words)
        return parser.parse_args(argv)
    parser = argparse.ArgumentParser(
        prog="pardec-chat",
        usage="pardec-chat [OPTIONS]\n       pardec-chat ask|serve|models|bench|check|doctor [OPTIONS]",
        description=_DESCRIPTION,
        epilog="Without a word the app opens. `pardec-chat WORD --help` tells about a word.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    tui.add_options(parser)
    return parser.parse_args(argv)


@contextmanager
def _logging_to_file() -> Iterator[None]:
    """Everything goes to the log file, native lines too; never to the screen."""
    from logging.handlers import RotatingFileHandler

    from pardec_chat.app import locations

    root = logging.getLogger()
    try:
        path = locations.log_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        handler: logging.Handler = RotatingFileHandler(path, maxBytes=2_000_000, backupCount=1, encoding="utf-8")
    except OSError:
        handler = logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    logging.getLogger("pardec_chat").setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; gives the exit code."""
    arguments = _parse(sys.argv[1:] if argv is None else argv)
    from pardec_chat.backends.errors import UserError

    try:
        with _logging_to_file():
            code: int = arguments.func(arguments)
        sys.stdout.flush()
    except UserError as error:
        if getattr(arguments, "json", False):
            print_json({"error": described(error)})
        print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone; nothing is left to say, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
