"""What a client sends: a body within bounds of size and time, and JSON inside it."""

from __future__ import annotations

import asyncio
import json
from typing import NoReturn

from starlette.types import Receive

from pardec_chat.app.endpoint.errors import ApiError
from pardec_chat.app.endpoint.sse import ClientGone

#: Bytes that a request may have.
MAX_BODY = 8 * 2**20
#: Seconds that it may take to come.
_SECONDS = 30.0
#: Bytes of a request that is too long that are still read, so that the client sees the reply and not a broken connection.
_DRAINED = 4 * MAX_BODY


def too_large() -> ApiError:
    """413, and the connection ends."""
    return ApiError(
        413, f"The request has more than {MAX_BODY:,} bytes.", code="request_too_large", headers={"connection": "close"}
    )


async def read_body(receive: Receive) -> bytes:
    """All of it. Raises ApiError (413, 408), or ClientGone."""
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone("the client left before it had asked")
                size += len(message.get("body", b""))
                if size <= MAX_BODY:
                    chunks.append(message.get("body", b""))
                if size > _DRAINED or not message.get("more_body", False):
                    break
    except TimeoutError:
        raise ApiError(
            408,
            f"The request did not come within {_SECONDS:g} seconds.",
            code="timeout",
            headers={"connection": "close"},
        ) from None
    if size > MAX_BODY:
        raise too_large()
    return b"".join(chunks)


def parsed(body: bytes) -> dict[str, object]:
    """The object in `body`. Raises ApiError (400)."""
    try:
        document = json.loads(body, parse_constant=_refuse)
        if b"\\u" in body:  # half a character can be written so, and is no text
            json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise _not_json("it is nested too deeply") from None
    except UnicodeError:
        raise _not_json("its text is no Unicode") from None
    except ValueError as error:
        raise _not_json(str(error)) from None
    if not isinstance(document, dict):
        raise ApiError(400, "The body is JSON, but not an object.", code="invalid_json")
    return document


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _not_json(reason: str) -> ApiError:
    return ApiError(400, f"The body is not valid JSON: {reason}.", code="invalid_json")
