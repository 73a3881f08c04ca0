"""The app as a process of its own, for tests that look at a real terminal: `python -m pardec_chat.tests.ui.child LOG PHASE`.

PHASE is where the engine is to hang for half a minute, as a native library can: load, prefill or generate; or what is to
break: engine or app; or none. While it runs a thread writes to the file descriptors 1 and 2, as native libraries do.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

from pardec_chat.app.app import ChatOptions, ModelEntry, run
from pardec_chat.app.chat.engine import Engine
from pardec_chat.app.screens.session import EngineLike
from pardec_chat.backends.base import LoadOptions
from pardec_chat.tests.fakes import FakeRuntime, ScriptedTarget


def _engine(phase: str) -> EngineLike:
    def rows(prefix: tuple[int, ...]) -> object:
        logits = np.zeros(256, np.float32)
        logits[97 + len(prefix) % 26] = 50.0
        return logits

    def load(options: LoadOptions) -> ScriptedTarget:
        if phase == "load":
            time.sleep(30)
        target = ScriptedTarget(rows, [bytes([i]) for i in range(256)], n_ctx=4096)  # type: ignore[arg-type]

        def on_pass(kind: str) -> None:
            if (kind, phase) in {("prefill", "prefill"), ("verify", "generate")}:
                time.sleep(30)
            time.sleep(0.01)

        target.on_pass = on_pass
        return target

    return Engine(lambda: FakeRuntime({"model.gguf": load}))


def _native() -> None:
    while True:
        time.sleep(0.003)
        os.write(1, b"NATIVE-OUT\n")
        os.write(2, b"NATIVE-ERR\n")


def main() -> int:
    """Run the app."""
    log, phase = Path(sys.argv[1]), sys.argv[2]

    def make() -> EngineLike:
        # Native code comes in with the engine, not before.
        threading.Thread(target=_native, daemon=True).start()
        print("python prints too")  # noqa: T201
        if phase == "engine":
            raise ImportError("no such engine")
        return _engine(phase)

    def choices() -> tuple[ModelEntry, ...]:
        if phase == "app":
            raise RuntimeError("a fault in the app")
        return ()

    # The thread goes on to the very end: native code is not told either that the app is over.
    return run(ChatOptions(Path("model.gguf"), choices=choices), log, make)


if __name__ == "__main__":
    sys.exit(main())
