"""The served document, and whether the server keeps to it."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from pardec_chat.tests.endpoint.scripted import Served, serving


@pytest.fixture(scope="module")
def served() -> Any:
    # Any raw prompt ends the same way; what is asked for is bounded by the context.
    with serving("ok", n_ctx=256) as one:
        yield one


def test_the_document_names_all_paths_and_refuses_unknown_fields(served: Served) -> None:
    document = served.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]) == {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/embeddings",
        "/v1/models",
        "/v1/models/{id}",
        "/health",
        "/metrics",
        "/openapi.json",
    }
    chat = document["components"]["schemas"]["ChatRequest"]
    assert chat["additionalProperties"] == {"type": "null"}
    assert chat["required"] == ["messages"]
    assert {"method", "depth", "timings_per_token", "repeat_penalty", "min_p"} <= set(chat["properties"])


def test_the_server_keeps_to_its_document(served: Served) -> None:
    schema = schemathesis.openapi.from_dict(served.get("/openapi.json").json())
    schema.config.update(base_url=served.address.url)
    checks = [
        content_type_conformance,
        negative_data_rejection,
        response_schema_conformance,
        status_code_conformance,
    ]
    seen: set[int] = set()
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]

        @hypothesis.settings(
            max_examples=25,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(
            case=operation.as_strategy() | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
        )
        def keeps(case: Any) -> None:
            reply = case.call()
            seen.add(reply.status_code)
            assert reply.status_code < 500 or reply.status_code == 501, reply.text
            case.validate_response(reply, checks=checks, excluded_checks=[not_a_server_error])

        keeps()
    assert {200, 400, 501} <= seen
