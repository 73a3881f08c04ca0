"""`pardec-chat doctor`: what is here, what is wrong, and the line that mends it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from pardec_chat.app.cli.output import print_json
from pardec_chat.backends.units import size


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The word and its flags."""
    words = "show runtimes, devices, memory and models, and what is wrong"
    parser = subparsers.add_parser("doctor", help=words, description=f"{words.capitalize()}.")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Gives 1 when something is wrong."""
    from pardec_chat.app.cli.diagnosis import diagnose

    found = diagnose()
    if arguments.json:
        print_json(found.document())
    else:
        from pardec_chat.app.plain_text import visible_line

        for line in _lines(found.document()):
            text = line.lstrip()
            print(" " * (len(line) - len(text)) + visible_line(text))
    return 1 if found.problems else 0


def _lines(report: dict[str, Any]) -> Iterator[str]:
    machine = report["machine"]
    yield f"pardec-chat {report['version']}, Python {report['python']}"
    yield machine["system"]
    features = f" with {', '.join(machine['features'])}" if machine["features"] else ""
    yield f"{machine['cpu']}, {machine['cores']} cores{features}"
    yield (
        f"memory {size(machine['memory_available'])} free of {size(machine['memory_total'])}, "
        f"disk {size(machine['disk_free'])} free"
    )
    for device in machine["devices"]:
        shared = ", of the machine's memory" if device["shared"] else ""
        yield f"{device['name']}, {size(device['free'])} free of {size(device['total'])}{shared}"
    yield from ("", "runtimes")
    for runtime in report["runtimes"]:
        yield f"  {runtime['name']}  {_state(runtime)}"
        if features := runtime.get("features"):
            yield f"    {features}"
        if kernels := runtime.get("kernels"):
            yield f"    kernels for the CPU: {kernels}"
        if placed := runtime.get("placed"):
            where = ", ".join(f"{size(count)} on {device}" for device, count in placed["devices"].items())
            most = f", {size(placed['peak_bytes'])} at most" if placed["peak_bytes"] else ""
            yield f"    tried with {placed['model']}: {where}{most}"
    yield from ("", "models")
    for model in report["models"]:
        state = model["helper"] or model["state"]
        yield f"  {model['id']}  {size(model['bytes'])}  {state}"
    yield from ("", "files")
    for name, file in report["files"].items():
        yield f"  {name}: {file['path']}{'' if file['exists'] else '  (not there)'}"
    yield from _settings_lines(report)
    terminal = report["terminal"]
    what = terminal["term"] if terminal["is_terminal"] else "none here"
    yield ""
    yield (
        f"terminal {what}, {terminal['columns']}x{terminal['lines']}, {terminal['colours']} colours, {terminal['encoding']}"
    )
    yield ""
    for problem in report["problems"]:
        yield f"✗ {problem['what']}"
        yield f"  {problem['mend']}"
    if not report["problems"]:
        yield "Nothing is wrong."


def _settings_lines(report: dict[str, Any]) -> Iterator[str]:
    settings = report["settings"]
    yield from ("", "settings")
    yield f"  {settings['path']}{'' if settings['exists'] else '  (not there: the defaults hold)'}"
    for problem in settings["problems"]:
        yield f"  {'' if problem['line'] is None else 'line {}: '.format(problem['line'])}{problem['what']}"


def _state(runtime: dict[str, Any]) -> str:
    if not runtime["installed"]:
        return "not installed"
    if not runtime["usable"]:
        return "broken"
    kinds = ", ".join(("CPU", *runtime["devices"]))
    return f"{runtime['version']}, built for: {kinds}"
