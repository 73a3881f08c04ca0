"""Compiles the native kernels when the package is installed; without a compiler the package works and llama.cpp keeps its own.

Everything else about the package stands in pyproject.toml.
"""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

_PRODUCTS = "kernels/quant_matmul/kernels.cpp"
#: Sources that are compiled once for each instruction set, and how far operations may be contracted in them: the sums of
#: quant_matmul are promised to the bit, so nothing may be.
PER_VARIANT = {
    _PRODUCTS: "-ffp-contract=off",
    "kernels/row_ops/row_ops.cpp": "-ffp-contract=fast",
    "kernels/block_attention/block_attention.cpp": "-ffp-contract=fast",
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

    def initialize_options(self) -> None:
        """See `build_ext`."""
        super().initialize_options()
        self.compiled: dict[str, list[str]] = {}

    def run(self) -> None:
        """See `build_ext`."""
        if platform.machine().lower() not in VARIANTS or sys.platform == "win32":
            self.without(f"there are none for {sys.platform} on {platform.machine()}")
            return
        try:
            super().run()
        except (CompileError, LinkError, OSError) as error:
            self.without(str(error))

    def build_extension(self, ext: Extension) -> None:
        """Compile each source with the flags of each instruction set, and link."""
        objects = [made for source in ext.sources for made in self.objects_of(source)]
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        self.compiler.link_shared_object(
            objects, str(target), libraries=["dl"] if sys.platform == "linux" else [], extra_postargs=["-fopenmp"],
            target_lang="c++",
        )  # fmt: skip

    def objects_of(self, source: str) -> list[str]:
        """A source's objects, one for each instruction set where it has any; both libraries share them."""
        if source not in self.compiled:
            temporary = Path(self.build_temp)
            if source not in PER_VARIANT:
                self.compiled[source] = self.compiler.compile([source], str(temporary), extra_postargs=FLAGS)
            else:
                self.compiled[source] = [
                    made
                    for name, flags in VARIANTS[platform.machine().lower()].items()
                    if name != "AMX" or source == _PRODUCTS  # the tile unit only multiplies
                    for made in self.compiler.compile(
                        [source],
                        str(temporary / name),
                        macros=[(f"PARDEC_{name}", None)],
                        extra_postargs=[*FLAGS, PER_VARIANT[source], *flags],
                    )
                ]
        return self.compiled[source]

    def without(self, why: str) -> None:
        """Say that there are no native kernels."""
        print(
            f"pardec-chat: installed without its own kernels for the CPU ({why}); llama.cpp's are used", file=sys.stderr
        )
        self.extensions = []

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
# Not for everybody yet: where this variable is set, they are compiled, and used where they prove to be faster.
WANTED = os.environ.get("PARDEC_CHAT_KERNELS") == "1"
setup(
    ext_modules=[
        Extension("pardec_chat.kernels.quant_matmul._native", [_PRODUCTS, *COMMON], depends=HEADERS),
        Extension(
            "pardec_chat.backends.llamacpp.accelerator._plugin", [*PER_VARIANT, *COMMON, *ACCELERATOR], depends=HEADERS
        ),
    ]
    if WANTED
    else [],
    cmdclass={"build_ext": BuildKernels},
)
