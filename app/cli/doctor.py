"""`pardec-chat doctor`: what is here, what is wrong, and the line that mends it."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from typing import Any

from pardec_chat.app.cli.output import print_json


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong, and a line to paste that mends it."""

    what: str
    mend: str


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The word and its flags."""
    words = "show runtimes, devices, memory and models, and what is wrong"
    parser = subparsers.add_parser("doctor", help=words, description=f"{words.capitalize()}.")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Gives 1 when something is wrong."""
    problems: list[Problem] = []
    report = {
        "version": _version(),
        "python": f"{platform.python_version()} ({sys.executable})",
        "machine": _machine(),
        "runtimes": [_runtime(name, problems) for name in _runtime_names()],
        "models": _models(problems),
        "files": _files(),
    }
    report["problems"] = [{"what": problem.what, "mend": problem.mend} for problem in problems]
    if arguments.json:
        print_json(report)
    else:
        _print(report)
    return 1 if problems else 0


def _version() -> str:
    from importlib.metadata import version

    return version("pardec-chat")


def _machine() -> dict[str, Any]:
    from pardec_chat.app import locations

    folder = locations.models()
    while not folder.exists():
        folder = folder.parent
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count(),
        "memory_total": _meminfo("MemTotal"),
        "memory_available": _meminfo("MemAvailable"),
        "disk_free": shutil.disk_usage(folder).free,
    }


def _meminfo(key: str) -> int | None:
    """Bytes, None where the system has no such file."""
    try:
        with open("/proc/meminfo") as file:  # noqa: PTH123
            for line in file:
                if line.startswith(f"{key}:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    if key == "MemTotal" and hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _runtime_names() -> list[str]:
    from pardec_chat.backends import registry

    return registry.names()


def _runtime(name: str, problems: list[Problem]) -> dict[str, Any]:
    from pardec_chat.app.chat.engine import Engine
    from pardec_chat.backends import registry

    if not registry.installed(name):
        problems.append(Problem(f"The runtime {name} is not installed.", "pip install llama-cpp-python==0.3.36"))
        return {"name": name, "installed": False}
    engine = Engine(name)
    try:
        described = engine.describe().result()
        if hint := described.get("hint"):
            problems.append(Problem(hint, described["mend"]))
        return {"name": name, "installed": True, **described}
    except Exception as error:  # noqa: BLE001  # a broken native build raises anything
        problems.append(
            Problem(
                f"The runtime {name} does not start: {error}",
                "pip install --force-reinstall --no-cache-dir llama-cpp-python==0.3.36",
            )
        )
        return {"name": name, "installed": True, "error": str(error)}
    finally:
        engine.close()


def _models(problems: list[Problem]) -> list[dict[str, Any]]:
    from pardec_chat.app.downloads.library import Library

    entries = Library().entries()
    if not any(entry.state == "on disk" for entry in entries):
        problems.append(Problem("No model is on this disk.", "pardec-chat models pull"))
    for entry in entries:
        if entry.state == "gone":
            problems.append(Problem(f"{entry.path} is gone.", f"pardec-chat models remove {entry.id}"))
        elif entry.state == "wrong size":
            problems.append(
                Problem(
                    f"{entry.path} has the wrong size.",
                    f"pardec-chat models remove {entry.id} && pardec-chat models pull {entry.id}",
                )
            )
    return [
        {"id": entry.id, "state": entry.state, "bytes": entry.size, "path": str(entry.path)}
        for entry in entries
        if entry.state != "not here"
    ]


def _files() -> dict[str, str]:
    from pardec_chat.app import locations

    return {
        "models": str(locations.models()),
        "log": str(locations.log_file()),
        "catalogue": str(locations.catalogue()),
    }


def _print(report: dict[str, Any]) -> None:
    from pardec_chat.app.plain_text import visible_line

    def size(value: int | None) -> str:
        return "unknown" if value is None else f"{value / 1e9:.1f} GB"

    machine = report["machine"]
    print(f"pardec-chat {report['version']}, Python {report['python']}")
    print(f"{machine['system']}, {machine['cores']} cores")
    print(
        f"memory {size(machine['memory_available'])} free of {size(machine['memory_total'])}, "
        f"disk {size(machine['disk_free'])} free"
    )
    print("\nruntimes")
    for runtime in report["runtimes"]:
        state = runtime.get("version", "broken") if runtime["installed"] else "not installed"
        print(f"  {runtime['name']}  {visible_line(state)}")
        if features := runtime.get("features"):
            print(f"    {visible_line(features)}")
    print("\nmodels")
    for model in report["models"]:
        print(f"  {visible_line(model['id'])}  {size(model['bytes'])}  {model['state']}")
    print("\nfiles")
    for name, path in report["files"].items():
        print(f"  {name}: {visible_line(path)}")
    print()
    for problem in report["problems"]:
        print(f"✗ {visible_line(problem['what'])}\n  {visible_line(problem['mend'])}")
    if not report["problems"]:
        print("Nothing is wrong.")
