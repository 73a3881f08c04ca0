"""The document at /openapi.json, made of the models that requests are checked with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from pardec_chat.app.endpoint.errors import ErrorReply
from pardec_chat.app.endpoint.replies import ChatChunk, ChatReply, CompletionReply, Health, ModelCard, ModelList
from pardec_chat.app.endpoint.response_replies import ResponseEvent, ResponseReply
from pardec_chat.app.endpoint.schema import ChatRequest, CompletionRequest, ResponseRequest

_REQUESTS: tuple[type[BaseModel], ...] = (ChatRequest, CompletionRequest, ResponseRequest)
_REPLIES: tuple[type[BaseModel], ...] = (
    ChatReply, ChatChunk, CompletionReply, ResponseReply, ResponseEvent, ModelList, ModelCard, Health, ErrorReply,
)  # fmt: skip
_REFUSALS = {
    "400": "What is asked is wrong or not supported; the error names the parameter.",
    "401": "A key is needed.",
    "403": "The Host or Origin is not allowed.",
    "404": "Only the loaded model answers.",
    "405": "The path has no such method.",
    "408": "The body did not come in time.",
    "413": "The body is too long.",
    "415": "The body is not declared as JSON.",
    "431": "The headers are too long.",
    "500": "A fault of the program.",
    "503": "No model is loaded, or too many requests wait (Retry-After).",
}


def document() -> str:
    """OpenAPI 3.1, as JSON."""
    _, definitions = models_json_schema(
        [*((model, "validation") for model in _REQUESTS), *((model, "serialization") for model in _REPLIES)],
        by_alias=True,
        ref_template="#/components/schemas/{model}",
    )
    paths = {
        "/v1/chat/completions": _post("Answer a conversation.", ChatRequest, ChatReply, ChatChunk),
        "/v1/completions": _post("Continue a text.", CompletionRequest, CompletionReply, CompletionReply),
        "/v1/responses": _post("Answer, in the form of the responses API.", ResponseRequest, ResponseReply, ResponseEvent),
        "/v1/embeddings": {"post": {
            "summary": "Not given.",
            "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
            "responses": _refusals("401", "403", "413", "415", "431") | {"501": _reply("Not given.", ErrorReply)},
        }},
        "/v1/models": _get("Models in memory and on this disk.", ModelList),
        "/v1/models/{id}": _get("One of them.", ModelCard, "404") | {"parameters": [
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        ]},
        "/health": {"get": {"summary": "Whether there is a model.", "security": [], "responses": {
            "200": _reply("There is.", Health), "503": _reply("There is none.", Health), **_refusals("403", "431"),
        }}},
        "/metrics": _plain("Counters for Prometheus.", "text/plain"),
        "/openapi.json": _plain("This document.", "application/json"),
    }  # fmt: skip
    return json.dumps(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "pardec-chat",
                "version": _version(),
                "summary": "A local model, in the form of OpenAI's API.",
            },
            "security": [{}, {"key": []}],
            "paths": paths,
            "components": {
                "schemas": definitions["$defs"],
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _version() -> str:
    try:
        return version("pardec-chat")
    except PackageNotFoundError:  # run from its folder, not installed
        return "0"


def _schema(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _reply(text: str, model: type[BaseModel]) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": _schema(model)}}}


def _refusals(*statuses: str) -> dict[str, Any]:
    return {status: _reply(_REFUSALS[status], ErrorReply) for status in statuses}


def _post(text: str, asked: type[BaseModel], whole: type[BaseModel], piece: type[BaseModel]) -> dict[str, Any]:
    content: Mapping[str, Any] = {
        "application/json": {"schema": _schema(whole)},
        "text/event-stream": {"schema": _event(piece)},
    }
    return {
        "post": {
            "summary": text,
            "requestBody": {"required": True, "content": {"application/json": {"schema": _schema(asked)}}},
            "responses": {"200": {"description": "The answer.", "content": content}, **_refusals(*_REFUSALS)},
        }
    }


def _event(piece: type[BaseModel]) -> dict[str, Any]:
    """One event: its data is JSON, or the mark of the end."""
    content = {"anyOf": [_schema(piece), _schema(ErrorReply)]}
    json_text = {"type": "string", "contentMediaType": "application/json", "contentSchema": content}
    data = {"anyOf": [{"const": "[DONE]"}, json_text]}
    return {"type": "object", "properties": {"event": {"type": "string"}, "data": data}, "required": ["data"]}


def _get(text: str, model: type[BaseModel], *refusals: str) -> dict[str, Any]:
    responses = {"200": _reply(text, model), **_refusals("401", "403", "431", *refusals)}
    return {"get": {"summary": text, "responses": responses}}


def _plain(text: str, kind: str) -> dict[str, Any]:
    found = {
        "description": text,
        "content": {kind: {"schema": {"type": "string" if kind == "text/plain" else "object"}}},
    }
    return {"get": {"summary": text, "responses": {"200": found, **_refusals("401", "403", "431")}}}
