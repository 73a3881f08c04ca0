"""The app itself: `pardec-chat` without a word."""

from __future__ import annotations

import argparse

from pardec_chat.app.cli import options


def add_options(parser: argparse.ArgumentParser) -> None:
    """What the app starts with; all of it can be changed inside."""
    parser.add_argument("--system", metavar="TEXT", help="system prompt")
    options.add_model_options(parser)
    options.add_method_options(parser)
    options.add_sampling_options(parser, temperature=0.7)
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Raises UserError, before the screen is touched."""
    raise NotImplementedError
