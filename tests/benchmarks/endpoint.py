"""What the endpoint adds, and what answers at the same time save, on one model.

    python -m pardec_chat.tests.benchmarks.endpoint MODEL.gguf [--requests 4] [--tokens 96] [--rounds 3]

Plain decoding at temperature 0. First text: the time from a request to its first text, asked of the engine directly and
through the server, alternating. Together: requests at once against the same ones one after another, alternating.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import threading
from pathlib import Path
from statistics import median
from time import perf_counter

import openai

_PROMPTS = (
    "Describe a walk in the forest.",
    "Explain how bread is baked.",
    "Tell me about the sea in winter.",
    "Why do people learn languages?",
)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()

    from pardec_chat.app.chat.engine import Engine
    from pardec_chat.app.chat.request import Delta, Event, Failed, Finished, Message, ModelChoice, Request
    from pardec_chat.app.endpoint.server import Address, Defaults, Server
    from pardec_chat.backends.base import Method
    from pardec_chat.backends.decoding.params import SamplingParams

    greedy = SamplingParams(temperature=0.0)
    engine = Engine()
    server: Server | None = None
    try:
        loaded = engine.load(ModelChoice(arguments.model, slots=arguments.requests)).result()
        server = Server(engine, lambda: loaded, tuple, lambda: Defaults(greedy, Method.PLAIN, None))
        address = server.start(Address("127.0.0.1", 0))
        connection = http.client.HTTPConnection(address.host, address.port)
        client = openai.OpenAI(base_url=f"{address.url}/v1", api_key="none", max_retries=0)

        def direct() -> float:
            first: list[float] = []
            start, over = perf_counter(), threading.Event()

            def sink(event: Event) -> None:
                if isinstance(event, Delta) and event.text and not first:
                    first.append(perf_counter() - start)
                if isinstance(event, Finished | Failed):
                    over.set()

            engine.submit(
                Request([Message("user", _PROMPTS[0])], sampling=greedy, max_tokens=4, overflow="refuse"), sink
            )
            over.wait()
            return first[0]

        def served() -> float:
            # No client library: its own milliseconds are not the server's.
            body = {"model": "default", "messages": [{"role": "user", "content": _PROMPTS[0]}], "max_tokens": 4}
            start = perf_counter()
            connection.request(
                "POST",
                "/v1/chat/completions",
                json.dumps(body | {"stream": True}),
                {"Content-Type": "application/json"},
            )
            reply, first = connection.getresponse(), 0.0
            while line := reply.readline():
                if not first and b'"content":"' in line.replace(b": ", b":") and b'"content":""' not in line:
                    first = perf_counter() - start
            return first

        def ask(number: int) -> str:
            reply = client.chat.completions.create(
                model="default",
                messages=[{"role": "user", "content": _PROMPTS[number % len(_PROMPTS)]}],
                max_tokens=arguments.tokens,
            )
            return reply.choices[0].message.content or ""

        def together() -> float:
            threads = [threading.Thread(target=ask, args=(n,)) for n in range(arguments.requests)]
            start = perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return perf_counter() - start

        def in_turn() -> float:
            start = perf_counter()
            for n in range(arguments.requests):
                ask(n)
            return perf_counter() - start

        direct(), served(), ask(0)
        pairs = [(direct(), served()) for _ in range(20)]
        added = median(there - here for here, there in pairs)
        print(
            f"first text: {median(here for here, _ in pairs) * 1e3:.1f} ms directly, {added * 1e3:+.1f} ms through the server"
        )
        ratios = []
        for _ in range(arguments.rounds):
            at_once, one_by_one = together(), in_turn()
            ratios.append(at_once / one_by_one)
            print(
                f"{arguments.requests} requests: {at_once:.2f} s at once, {one_by_one:.2f} s in turn, {ratios[-1]:.2f}x"
            )
        print(f"median {median(ratios):.2f}x")
    finally:
        if server is not None:
            server.stop()
        engine.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
