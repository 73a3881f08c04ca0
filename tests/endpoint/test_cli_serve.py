"""`pardec-chat serve`: what it prints, what it refuses, how it ends."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from pardec_chat.app.chat.engine import Engine
from pardec_chat.app.chat.request import ModelChoice
from pardec_chat.app.cli import options, serve
from pardec_chat.backends.errors import BadSetting, MethodUnavailable
from pardec_chat.tests.endpoint.scripted import target
from pardec_chat.tests.fakes import FakeRuntime


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve.add_parser(parser.add_subparsers())
    return parser.parse_args(["serve", *words])


class Printed:
    """Standard output, on which something is done with the first line."""

    def __init__(self, then: Callable[[str], None]) -> None:
        self.text = ""
        self._then = then

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        if self.text:
            threading.Thread(target=self._then, args=(self.text,)).start()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    """The command line with a scripted model in place of real ones."""
    runtime = FakeRuntime({"a": lambda options: target(lambda _prompt: "hello there", options)})
    monkeypatch.setattr("pardec_chat.app.chat.engine.Engine", lambda _name: Engine(lambda: runtime))
    monkeypatch.setattr(options, "choice", lambda _arguments: ModelChoice(Path("a")))
    monkeypatch.setenv("PARDEC_CHAT_MODELS", "/nonexistent/models")
    return runtime


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_asked_to_end(
    scripted: FakeRuntime, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    replies: list[Any] = []

    def use(line: str) -> None:
        try:
            url = re.findall(r"http://\S+", line)[0]
            headers = {"authorization": "Bearer sk-secret"}
            body = {"messages": [{"role": "user", "content": "hi"}]}
            replies.append(httpx.get(f"{url}/models", headers=headers, trust_env=False).json())
            replies.append(httpx.post(f"{url}/chat/completions", json=body, headers=headers, trust_env=False).json())
        finally:
            os.kill(os.getpid(), number)

    printed = Printed(use)
    monkeypatch.setenv("PARDEC_CHAT_API_KEY", "sk-secret")
    monkeypatch.setattr(sys, "stdout", printed)
    before = signal.getsignal(number)
    asked = arguments("--port", "0", "--slots", "3", "--method", "ngram", "--depth", "4", "--temperature", "0")
    assert asked.func(asked) == 0
    assert signal.getsignal(number) == before
    assert "sk-secret" not in printed.text
    models, chat = replies
    assert [model["id"] for model in models["data"] if model["loaded"]] == ["a"]
    assert chat["choices"][0]["message"]["content"] == "hello there"
    assert chat["timings"]["method"] == "ngram"
    assert scripted.loaded[0].slots == 3
    assert scripted.targets[0].closed


def test_what_cannot_be_is_told_before_a_model_is_loaded(
    scripted: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARDEC_CHAT_API_KEY", raising=False)
    for words in (["--slots", "0"], ["--method", "auto", "--depth", "3"], ["--depth", "many"]):
        with pytest.raises(BadSetting):
            serve.run(arguments(*words))
    with pytest.raises(MethodUnavailable):
        serve.run(arguments("--method", "draft"))
    assert not scripted.loaded


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_X02_another_address_without_a_key_is_refused(
    scripted: FakeRuntime, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.delenv("PARDEC_CHAT_API_KEY", raising=False)
    with pytest.raises(BadSetting, match="no key"):
        serve.run(arguments("--host", host, "--port", "0"))
    assert not scripted.loaded, "a model takes a while to load"
