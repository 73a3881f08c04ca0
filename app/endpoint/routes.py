"""The application: paths, and what they say when something is not there."""

from __future__ import annotations

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pardec_chat.app.endpoint.chat import ChatForm
from pardec_chat.app.endpoint.completions import CompletionForm
from pardec_chat.app.endpoint.context import Context, ListedModel
from pardec_chat.app.endpoint.errors import ApiError
from pardec_chat.app.endpoint.handling import Endpoint, internal
from pardec_chat.app.endpoint.metrics import CONTENT_TYPE
from pardec_chat.app.endpoint.openapi import document
from pardec_chat.app.endpoint.replies import Health, ModelCard, ModelList
from pardec_chat.app.endpoint.responses import ResponseForm
from pardec_chat.app.endpoint.schema import ChatRequest, CompletionRequest, ResponseRequest


def application(context: Context) -> Starlette:
    """All that is served; the guard goes around it."""
    small = _Small(context)
    return Starlette(
        routes=[
            Route("/v1/chat/completions", Endpoint(context, "chat", ChatRequest, ChatForm), methods=["POST"]),
            Route(
                "/v1/completions", Endpoint(context, "completion", CompletionRequest, CompletionForm), methods=["POST"]
            ),
            Route("/v1/responses", Endpoint(context, "response", ResponseRequest, ResponseForm), methods=["POST"]),
            Route("/v1/embeddings", _embeddings, methods=["POST"]),
            Route("/v1/models", small.models, methods=["GET"]),
            Route("/v1/models/{id:path}", small.model, methods=["GET"]),
            Route("/health", small.health, methods=["GET"]),
            Route("/metrics", small.metrics, methods=["GET"]),
            Route("/openapi.json", small.openapi, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _http, ApiError: _api, Exception: _fault},
    )


class _Small:
    """What is answered at once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._document = document()

    async def models(self, request: Request) -> Response:
        cards = [self._card(model) for model in await self._context.listed()]
        return _json(ModelList(object="list", data=cards))

    async def model(self, request: Request) -> Response:
        asked = request.path_params["id"]
        for model in await self._context.listed():
            if asked in (model.id, model.name):
                return _json(self._card(model))
        raise ApiError(404, f"There is no model {asked} here.", param="model", code="model_not_found")

    async def health(self, request: Request) -> Response:
        loaded = self._context.loaded()
        health = Health(
            status="no model" if loaded is None else "ok",
            model=None if loaded is None else loaded.model,
            draft=None if loaded is None else loaded.draft,
            waiting=self._context.engine.n_waiting,
        )
        return _json(health, 503 if loaded is None else 200)

    async def metrics(self, request: Request) -> Response:
        text = self._context.metrics.text(self._context.engine.n_waiting)
        return Response(text, headers={"content-type": CONTENT_TYPE})

    async def openapi(self, request: Request) -> Response:
        return Response(self._document, media_type="application/json")

    def _card(self, model: ListedModel) -> ModelCard:
        return ModelCard(
            id=model.id,
            object="model",
            created=self._context.started,
            owned_by="local",
            name=model.name,
            loaded=model.loaded,
            size=model.size,
        )


async def _embeddings(_: Request) -> Response:
    raise ApiError(
        501,
        "Embeddings are not given: the models here are loaded to write text, and their hidden states are not kept.",
        code="not_implemented",
    )


def _json(reply: BaseModel, status: int = 200) -> Response:
    return Response(reply.model_dump_json(), status, media_type="application/json")


async def _api(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return Response(error.body(), error.status, error.headers, "application/json")


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = "There is nothing at this path." if error.status_code == 404 else f"{error.detail}."
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code)
    return await _api(request, ApiError(error.status_code, what, code=code, headers=error.headers))


async def _fault(request: Request, error: Exception) -> Response:
    return await _api(request, internal(error))
