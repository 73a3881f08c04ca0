"""One request from its body to its reply, the same way for every kind of answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.types import Receive, Scope, Send

from pardec_chat.app.endpoint.answers import Answers, Ask, Beat, Part
from pardec_chat.app.endpoint.context import Context
from pardec_chat.app.endpoint.errors import ApiError, of_validation
from pardec_chat.app.endpoint.fields import Sampling
from pardec_chat.app.endpoint.reading import parsed, read_body
from pardec_chat.app.endpoint.sse import ClientGone, Writer, comment

logger = logging.getLogger(__name__)
AnyRequest = TypeVar("AnyRequest", bound=Sampling)


class Form(Protocol):
    """How one API writes answers. All parts go through `part`, whether the reply is a stream or not, so both are alike."""

    ask: Ask

    def opening(self) -> Iterable[bytes]:
        """What a stream begins with."""

    def part(self, index: int, part: Part) -> Iterable[bytes]:
        """What a stream says to what is new in one answer."""

    def closing(self) -> Iterable[bytes]:
        """What a stream ends with."""

    def failing(self, error: ApiError) -> Iterable[bytes]:
        """What a stream ends with when there is no more of the answers."""

    def whole(self) -> BaseModel:
        """The reply in one piece, once all parts were taken."""


class Endpoint:
    """An ASGI application for one path that answers with text.

    what: its name in the journal. schema: what bodies must be. form: made of a valid request and the model's id.
    """

    def __init__(
        self,
        context: Context,
        what: str,
        schema: type[AnyRequest],
        form: Callable[[Context, AnyRequest, str], Form],
    ) -> None:
        self._context = context
        self._what = what
        self._schema: type[Sampling] = schema
        self._form: Callable[[Context, Any, str], Form] = form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        entry = self._context.journal.open(self._what, client_of(scope))
        writer = Writer(send)
        try:
            body = await read_body(receive)
            await while_connected(receive, self._answer(body, writer, entry))
        except ApiError as error:
            self._context.journal.update(entry, state="failed", error=error.message)
            if not writer.started:
                await writer.error(error)
        except ClientGone as error:
            self._context.journal.update(entry, state="stopped", error=str(error))
        except asyncio.CancelledError:
            self._context.journal.update(entry, state="stopped")
            raise
        except Exception as fault:
            logger.exception("a fault of the endpoint")
            self._context.journal.update(
                entry, state="failed", error=f"A fault of this program: {type(fault).__name__}."
            )
            if not writer.started:
                await writer.error(internal(fault))

    async def _answer(self, body: bytes, writer: Writer, entry: int) -> None:
        document = parsed(body)
        try:
            request = self._schema.model_validate(document)
        except ValidationError as error:
            raise of_validation(error, document) from None
        model = await self._context.answering(request.model)
        form = self._form(self._context, request, model)
        self._context.journal.update(entry, method=form.ask.requests[0].method.value)
        await self._check_ids(form.ask)
        async with Answers(self._context, form.ask, entry) as answers:
            if request.stream:
                await self._stream(form, answers, writer, entry)
                return
            async for told in answers.follow():
                if isinstance(told, tuple):
                    for _ in form.part(*told):
                        pass
        self._context.journal.update(entry, state="done")
        await writer.whole(200, form.whole().model_dump_json(exclude_unset=True, by_alias=True).encode())

    async def _stream(self, form: Form, answers: Answers, writer: Writer, entry: int) -> None:
        """The head waits for the first sign that the prompt was taken, so that a refusal still has a status of its own."""
        try:
            async for told in answers.follow():
                if not writer.started:
                    await writer.begin()
                    await writer.frames(form.opening())
                if isinstance(told, Beat):
                    if told.due:
                        await writer.frames([comment(told.why)])
                else:
                    await writer.frames(form.part(*told))
            self._context.journal.update(entry, state="done")
            await writer.frames(form.closing())
        except ApiError as error:
            if not writer.started:
                raise
            await writer.frames(form.failing(error))
            await writer.end()
            raise
        await writer.end()

    async def _check_ids(self, ask: Ask) -> None:
        """Ids of logit_bias have to be in the vocabulary: one that is not would be ignored. Raises ApiError."""
        ids = list(ask.requests[0].sampling.logit_bias)
        if not ids:
            return
        try:
            await self._context.pieces(ids)
        except Exception as error:
            raise ApiError(
                400,
                "logit_bias names a token that the model's vocabulary does not have.",
                param="logit_bias",
                code="invalid_value",
            ) from error


def internal(fault: Exception) -> ApiError:
    """500, with no more than the kind of the fault."""
    return ApiError(
        500,
        f"A fault of this program: {type(fault).__name__}. The log says where.",
        code="internal",
        kind="server_error",
    )


def client_of(scope: Scope) -> str:
    """The user agent."""
    headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
    found: Mapping[bytes, bytes] = dict(headers)
    return found.get(b"user-agent", b"").decode("latin-1") or "unknown"


async def while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do `work` unless the client leaves. Raises ClientGone when it has; `work` was cancelled then, and has ended."""
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone("the client left")
        await task
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
