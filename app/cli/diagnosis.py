"""What `pardec-chat doctor` finds: facts about the machine, the runtimes and the models, and what is wrong with them."""

from __future__ import annotations

import locale
import os
import platform
import shutil
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from pardec_chat.app.downloads.library import Entry
    from pardec_chat.backends.machine import Machine

#: Less than this on the disk of the models holds no model worth having; bytes.
_LITTLE_DISK = 2 * 10**9
#: A model of at most this size is loaded to see where it is placed; bytes.
_TO_TRY = 700_000_000
_PACKAGE = "llama-cpp-python==0.3.36"
#: The runtime that every installation has.
_BASE = "llamacpp"
#: Kind of GPU → how to build for it.
_BUILD_FOR = {
    "cuda": f'CMAKE_ARGS="-DGGML_CUDA=on" pip install --force-reinstall --no-deps --no-cache-dir {_PACKAGE}',
    "metal": f'CMAKE_ARGS="-DGGML_METAL=on" pip install --force-reinstall --no-deps --no-cache-dir {_PACKAGE}',
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong, and a line to paste that mends it."""

    what: str
    mend: str


@dataclass(slots=True)
class Diagnosis:
    """Facts by subject, as they stand in the JSON document, and what is wrong."""

    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, what: str, mend: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(what, mend))

    def document(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        return {**self.facts, "problems": [asdict(problem) for problem in self.problems]}


def diagnose() -> Diagnosis:
    """Look at everything; takes some seconds, since a small model is loaded."""
    from importlib.metadata import version

    from pardec_chat.backends import machine, registry

    found = Diagnosis()
    here = machine.inspect()
    found.facts["version"] = version("pardec-chat")
    found.facts["python"] = f"{platform.python_version()} ({sys.executable})"
    found.facts["machine"] = _machine(found, here)
    entries = _models(found)
    found.facts["runtimes"] = [_runtime(found, name, here, entries) for name in registry.names()]
    found.facts["files"] = _files()
    found.facts["settings"] = _settings(found)
    found.facts["terminal"] = _terminal(found)
    return found


def _machine(found: Diagnosis, here: Machine) -> dict[str, Any]:
    from pardec_chat.app import locations

    folder = locations.models()
    while not folder.exists():
        folder = folder.parent
    disk_free = shutil.disk_usage(folder).free
    if disk_free < _LITTLE_DISK:
        found.wrong(
            f"Only {disk_free / 1e9:.1f} GB are free on the disk of {folder}.",
            "export PARDEC_CHAT_MODELS=/a/folder/on/a/larger/disk",
        )
    return {
        "system": here.system,
        "cpu": here.cpu,
        "cores": here.cores,
        "features": list(here.features),
        "memory_total": here.memory_total,
        "memory_available": here.memory_free,
        "disk_free": disk_free,
        "devices": [asdict(device) for device in here.devices],
    }


def _runtime(found: Diagnosis, name: str, here: Machine, entries: list[Entry]) -> dict[str, Any]:
    from pardec_chat.app.chat.engine import Engine
    from pardec_chat.backends import registry
    from pardec_chat.backends.llamacpp import build

    if not registry.installed(name):
        if name == _BASE:  # the others are extras
            found.wrong(f"The runtime {name} is not installed.", f"pip install {_PACKAGE}")
        return {"name": name, "installed": False, "usable": False}
    # What torch was built for it says itself, with a hint where that matters.
    kinds = sorted(build.device_kinds()) if name == _BASE else []
    for device in here.devices if name == _BASE else ():
        if device.kind not in kinds:
            found.wrong(
                f"{name} was built for the CPU alone, and this machine has a GPU that stays idle: {device.name}.",
                _BUILD_FOR[device.kind],
            )
            break
    engine = Engine(name)
    try:
        described = engine.describe().result()
        if hint := described.get("hint"):
            found.wrong(hint, described["mend"])
        facts = {"name": name, "installed": True, "usable": True, "devices": kinds, **described}
        facts["placed"] = _placed(found, engine, name, entries)
        return facts
    except Exception as error:  # noqa: BLE001  # a broken native build raises anything
        package = _PACKAGE if name == _BASE else f'"pardec-chat[{name}]"'
        found.wrong(
            f"The runtime {name} does not start: {error}", f"pip install --force-reinstall --no-cache-dir {package}"
        )
        return {"name": name, "installed": True, "usable": False, "devices": kinds, "error": str(error)}
    finally:
        engine.close()


def _placed(found: Diagnosis, engine: Any, name: str, entries: list[Entry]) -> dict[str, Any] | None:
    """Where the smallest model that this runtime reads really went; None where there is none to try."""
    from pardec_chat.app.chat.request import ModelChoice
    from pardec_chat.backends.errors import ModelUnreadable, UserError

    small = [entry for entry in entries if entry.state == "on disk" and not entry.helper and entry.size <= _TO_TRY]
    for entry in sorted(small, key=lambda entry: entry.size):
        try:
            loaded = engine.load(ModelChoice(entry.path, n_ctx=512)).result()
        except UserError as error:
            if name != _BASE and isinstance(error, ModelUnreadable):
                continue  # what one of the others does not read may be no fault of the file
            found.wrong(f"{entry.id} cannot be loaded: {error.what}", f"pardec-chat models remove {entry.id}")
            return None
        return {
            "model": entry.id,
            "devices": dict(loaded.placed),
            "peak_bytes": loaded.peak,
            "planned_bytes": loaded.plan.need_of_models() if loaded.plan is not None else None,
        }
    return None


def _models(found: Diagnosis) -> list[Entry]:
    from pardec_chat.app.downloads.library import Library
    from pardec_chat.backends.errors import UserError

    try:
        library = Library()
        entries = [entry for entry in [*library.entries(), *library.cached()] if entry.state != "not here"]
    except UserError as error:
        found.wrong(error.what, error.next_step)
        found.facts["models"] = []
        return []
    if not any(entry.state == "on disk" and not entry.helper for entry in entries):
        found.wrong("No model is on this disk.", "pardec-chat models pull")
    for entry in entries:
        if entry.state == "gone":
            found.wrong(f"{entry.path} is gone.", f"pardec-chat models remove {entry.id}")
        elif entry.state == "wrong size":
            again = f"pardec-chat models remove {entry.id} && pardec-chat models pull {entry.id}"
            found.wrong(f"{entry.path} has the wrong size.", again)
        elif entry.state == "partial":
            found.wrong(f"{entry.id} is here to {entry.percent} % only.", f"pardec-chat models pull {entry.id}")
        elif why := _unreadable(entry):
            found.wrong(why, f"pardec-chat models remove {entry.id}")
    found.facts["models"] = [
        {
            "id": entry.id,
            "state": entry.state,
            "bytes": entry.size,
            "path": str(entry.path),
            "helper": entry.helper or None,
        }
        for entry in entries
    ]
    return entries


def _unreadable(entry: Entry) -> str:
    from pardec_chat.backends.errors import ModelUnreadable
    from pardec_chat.backends.gguf.model import read_model

    if entry.helper:
        return ""
    try:
        read_model(entry.path)
    except ModelUnreadable as error:
        return error.what
    return ""


def _files() -> dict[str, dict[str, Any]]:
    from pardec_chat.app import locations

    places: dict[str, Path] = {
        "models": locations.models(),
        "catalogue": locations.catalogue(),
        "own catalogue": locations.user_catalogue(),
        "learned": locations.learned(),
        "earlier answers": locations.earlier(),
        "log": locations.log_file(),
    }
    return {name: {"path": str(path), "exists": path.exists()} for name, path in places.items()}


def _settings(found: Diagnosis) -> dict[str, Any]:
    import shlex

    from pardec_chat.app import keymap, locations
    from pardec_chat.app.places import places
    from pardec_chat.app.settings_file import read

    path = locations.settings()
    settings, of_file = read(path)
    problems = [*of_file, *keymap.make(settings.keys, places() if settings.keys else ()).problems]
    problems.sort(key=lambda problem: problem.line or 0)
    if problems:
        how_much = "Nothing" if of_file and of_file[0].whole else "Not all"
        found.wrong(
            f"{how_much} of the settings is taken: {problems[0]}",
            f'"${{EDITOR:-vi}}" +{problems[0].line or 1} {shlex.quote(str(path))}',
        )
    return {
        "path": str(path),
        "exists": os.path.exists(path),  # noqa: PTH110  # Path.exists raises where a folder is closed
        "problems": [{"line": problem.line, "what": problem.what} for problem in problems],
    }


def _terminal(found: Diagnosis) -> dict[str, Any]:
    size = shutil.get_terminal_size()
    term, colour = os.environ.get("TERM", ""), os.environ.get("COLORTERM", "")
    encoding = locale.getpreferredencoding(False)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if encoding.lower().replace("-", "") != "utf8":
        found.wrong(
            f"The terminal's encoding is {encoding}, which has no Japanese and no emoji.", "export LANG=C.UTF-8"
        )
    if is_terminal and term in ("dumb", ""):
        found.wrong("The terminal says that it can draw nothing (TERM).", "export TERM=xterm-256color")
    elif is_terminal and (size.columns < 80 or size.lines < 24):
        found.wrong(
            f"The terminal has {size.columns}x{size.lines} cells; the app wants 80x24.", "printf '\\e[8;24;80t'"
        )
    return {
        "is_terminal": is_terminal,
        "term": term,
        "colours": "16 million" if colour in ("truecolor", "24bit") else "256" if "256" in term else "16",
        "columns": size.columns,
        "lines": size.lines,
        "encoding": encoding,
    }
