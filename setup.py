"""Compiles the native kernels when the package is installed; without a compiler the package works and llama.cpp keeps its own.

Everything else about the package stands in pyproject.toml.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

_PRODUCTS = "kernels/quant_matmul/kernels.cpp"
_ATTENTION = "kernels/block_attention/block_attention.cpp"
_FEW_ROWS = "kernels/few_rows/few_rows.cpp"
#: Sources that are compiled once for each instruction set, and how far operations may be contracted in them: the sums of
#: quant_matmul are promised to the bit, so nothing may be.
PER_VARIANT = {
    _PRODUCTS: "-ffp-contract=off",
    "kernels/row_ops/row_ops.cpp": "-ffp-contract=fast",
    _ATTENTION: "-ffp-contract=fast",
    _FEW_ROWS: "-ffp-contract=fast",
}
#: Machine → instruction set → flags.
VARIANTS = {
    "x86_64": {
        "AMX": ["-march=x86-64-v4", "-mavx512vnni", "-mprefer-vector-width=512"],
        "AVX512VNNI": ["-march=x86-64-v4", "-mavx512vnni", "-mprefer-vector-width=512"],
        "AVXVNNI": ["-march=x86-64-v3", "-mavxvnni"],
        "AVX2": ["-march=x86-64-v3"],
    },
    "aarch64": {"NEON": ["-march=armv8.2-a+dotprod+fp16"]},
}
VARIANTS["amd64"] = VARIANTS["x86_64"]
VARIANTS["arm64"] = VARIANTS["aarch64"]
FLAGS = ["-std=c++20", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-fopenmp", "-Wno-psabi"]
HEADERS = [str(path) for top in ("kernels", "backends") for path in Path(top).rglob("*.h")]
COMMON = ["kernels/quant_matmul/pack.cpp", "kernels/quant_matmul/dispatch.cpp"]
ACCELERATOR = [f"backends/llamacpp/accelerator/{name}.cpp" for name in (
    "binding", "plan", "plugin", "self_test", "steps_products", "steps_rows",
)]  # fmt: skip


class BuildKernels(build_ext):
    """Two libraries that share their objects; given up with a notice where they cannot be made."""

    def run(self) -> None:
        """See `build_ext`."""
        if os.environ.get("PARDEC_CHAT_KERNELS") == "0":
            self.without("PARDEC_CHAT_KERNELS is 0")
            return
        if platform.machine().lower() not in VARIANTS or sys.platform == "win32":
            self.without(f"there are none for {sys.platform} on {platform.machine()}")
            return
        try:
            super().run()
        except (CompileError, LinkError, OSError) as error:
            self.without(str(error))

    def build_extension(self, ext: Extension) -> None:
        """Compile what changed, and link. Both libraries share their objects, which stay in `build` for the next time."""
        wanted = [one for source in ext.sources for one in self.objects_of(source)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self.compile_one, wanted))
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        self.compiler.link_shared_object(
            [str(self.object_at(*one)) for one in wanted],
            str(target),
            libraries=["dl"] if sys.platform == "linux" else [],
            extra_postargs=["-fopenmp"],
            target_lang="c++",
        )

    def objects_of(self, source: str) -> list[tuple[str, str, tuple[str, ...]]]:
        """A source with an instruction set and flags for each of its objects; one without a set where it has none."""
        if source not in PER_VARIANT:
            return [(source, "", tuple(FLAGS))]
        return [
            (source, name, (*FLAGS, PER_VARIANT[source], *flags))
            for name, flags in VARIANTS[platform.machine().lower()].items()
            if name != "AMX" or source == _PRODUCTS  # the tile unit only multiplies
        ]

    def object_at(self, source: str, variant: str, flags: tuple[str, ...]) -> Path:
        """Where an object lies: another compiler or other flags make another one."""
        command = [getattr(self.compiler, "compiler_so_cxx", None) or self.compiler.compiler_so, flags]
        key = hashlib.sha256(repr(command).encode()).hexdigest()[:12]
        return Path("build", "kernels", variant or "any", key, f"{Path(source).stem}.o")

    def compile_one(self, wanted: tuple[str, str, tuple[str, ...]]) -> None:
        """Make an object unless there is one that is newer than all that it could be made of."""
        source, variant, flags = wanted
        made = self.object_at(*wanted)
        newest = max(Path(path).stat().st_mtime for path in (source, *HEADERS, "setup.py"))
        if not self.force and made.exists() and made.stat().st_mtime > newest:
            return
        macros = [(f"PARDEC_{variant}", None)] if variant else []
        # What is not finished must not look as if it were.
        (fresh,) = self.compiler.compile([source], f"{made.parent}/new", macros=macros, extra_postargs=list(flags))
        Path(fresh).replace(made)

    def without(self, why: str) -> None:
        """Say that there are no native kernels."""
        print(
            f"pardec-chat: installed without its own kernels for the CPU ({why}); llama.cpp's are used", file=sys.stderr
        )
        self.extensions = []
        if self.editable_mode:  # what an earlier installation made is not of these sources
            for made in [path for top in ("kernels", "backends") for path in Path(top).rglob("_*.so")]:
                made.unlink()

    def get_outputs(self) -> list[str]:
        """Files that were really made."""
        return [path for path in super().get_outputs() if Path(path).exists()]

    def copy_extensions_to_source(self) -> None:
        """Editable installs: the libraries beside their sources, those that were made."""
        self.extensions = [
            ext for ext in self.extensions if Path(self.build_lib, self.get_ext_filename(ext.name)).exists()
        ]
        super().copy_extensions_to_source()


# The interpreter's own flags may ask for other instruction sets or warnings than these sources are made for.
sysconfig.get_config_vars()["CFLAGS"] = ""
setup(
    ext_modules=[
        Extension(
            "pardec_chat.kernels.quant_matmul._native",
            [
                _PRODUCTS,
                _ATTENTION,
                "kernels/block_attention/entry.cpp",
                _FEW_ROWS,
                "kernels/few_rows/calls.cpp",
                *COMMON,
            ],
            depends=HEADERS,
        ),
        Extension(
            "pardec_chat.backends.llamacpp.accelerator._plugin",
            [*(one for one in PER_VARIANT if one != _FEW_ROWS), *COMMON, *ACCELERATOR],
            depends=HEADERS,
        ),
    ],
    cmdclass={"build_ext": BuildKernels},
)
