"""What is installed is what the repository says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from pardec_chat.app import locations

_PYPROJECT = tomllib.loads((locations.ROOT / "pyproject.toml").read_text())


def test_every_package_folder_is_listed() -> None:
    listed = {name.removeprefix("pardec_chat").lstrip(".") for name in _PYPROJECT["tool"]["setuptools"]["packages"]}
    found = {
        str(path.parent.relative_to(locations.ROOT)).replace("/", ".")
        for top in ("app", "backends", "kernels")
        for path in (locations.ROOT / top).rglob("__init__.py")
    }
    assert found | {"", "assets"} == listed


def test_versions_agree() -> None:
    project = _PYPROJECT["project"]
    assert version("pardec-chat") == project["version"]
    newest = re.search(r"^## (\S+)", (locations.ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest is not None
    assert newest.group(1) == project["version"]
    assert version("llama-cpp-python") == next(
        line.split("==")[1] for line in project["dependencies"] if line.startswith("llama-cpp-python")
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without the network, by the build back end of the test environment, from a copy so that nothing is left here."""
    folder = tmp_path_factory.mktemp("wheel")
    source = shutil.copytree(
        locations.ROOT,
        folder / "source",
        ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "tests"),
    )
    code = f"from setuptools.build_meta import build_wheel; build_wheel({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_carries_code_and_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "pardec_chat/models.toml" in names
    assert "pardec_chat/assets/prompts/edit.toml" in names
    assert "pardec_chat/app/screens/chat.tcss" in names
    assert "pardec_chat/backends/llamacpp/target.py" in names
    assert not [name for name in names if "tests/" in name or name.endswith(".gguf")]


def test_headless_parts_import_no_textual() -> None:
    """The import contracts say so for our own lines; this shows it for whatever those import."""
    modules = (
        "pardec_chat.app.chat.engine, pardec_chat.app.downloads.pull, pardec_chat.app.cli.main, "
        "pardec_chat.backends.registry, pardec_chat.kernels.verify_accept.reference"
    )
    code = f"import sys, {modules}\nsys.exit('textual' in sys.modules or 'llama_cpp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
