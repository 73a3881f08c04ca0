"""What is installed is what the repository says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
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
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, so that nothing is left here; with the objects of the installation, so that only what changed is compiled."""
    folder = tmp_path_factory.mktemp("package") / "source"
    ignored = shutil.ignore_patterns(".*", "build", "*.egg-info", "*.so", "__pycache__", "tests")
    shutil.copytree(locations.ROOT, folder, ignore=ignored)
    if (objects := locations.ROOT / "build" / "kernels").exists():
        shutil.copytree(objects, folder / "build" / "kernels")
    return folder


def build(what: str, source: Path, folder: Path) -> Path:
    """Without the network, by the build back end of the test environment."""
    code = f"from setuptools.build_meta import build_{what}; print(build_{what}({str(folder)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


def test_the_wheel_carries_code_and_data_and_nothing_else(source: Path, tmp_path: Path) -> None:
    names = zipfile.ZipFile(build("wheel", source, tmp_path)).namelist()
    assert "pardec_chat/models.toml" in names
    assert "pardec_chat/assets/prompts/edit.toml" in names
    assert "pardec_chat/app/screens/chat.tcss" in names
    assert "pardec_chat/backends/llamacpp/target.py" in names
    compiled = {name.split(".")[0] for name in names if name.endswith(".so")}
    libraries = {"pardec_chat/kernels/quant_matmul/_native", "pardec_chat/backends/llamacpp/accelerator/_plugin"}
    # Where this environment has none, there may be no compiler.
    assert compiled == libraries or (not compiled and not list(locations.ROOT.rglob("_plugin*.so")))
    assert not [name for name in names if "tests/" in name or name.endswith(".gguf")]


def test_a_wheel_without_the_kernels(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARDEC_CHAT_KERNELS", "0")
    copy = shutil.copytree(source, tmp_path / "source", ignore=shutil.ignore_patterns("build"))
    names = zipfile.ZipFile(build("wheel", copy, tmp_path)).namelist()
    assert "pardec_chat/backends/llamacpp/accelerator/loading.py" in names
    assert not [name for name in names if name.endswith(".so")]


def test_the_source_archive_can_compile_the_kernels(source: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", source, tmp_path)) as archive:
        names = archive.getnames()
    held = {name.split("/", 1)[1] for name in names if name.endswith((".cpp", ".h"))}
    tops = (locations.ROOT / "kernels", locations.ROOT / "backends")
    written = {
        str(path.relative_to(locations.ROOT))
        for top in tops
        for path in top.rglob("*.*")
        if path.suffix in (".cpp", ".h")
    }
    assert held == written


def test_headless_parts_import_no_textual() -> None:
    """The import contracts say so for our own lines; this shows it for whatever those import."""
    modules = (
        "pardec_chat.app.chat.engine, pardec_chat.app.downloads.pull, pardec_chat.app.cli.main, "
        "pardec_chat.backends.registry, pardec_chat.kernels.verify_accept.reference"
    )
    code = f"import sys, {modules}\nsys.exit('textual' in sys.modules or 'llama_cpp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
