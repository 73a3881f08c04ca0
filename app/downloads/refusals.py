"""The Hub's refusals and the network's failures, each turned into what the user can do about it.

Nothing here sees the token, only whether one was sent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx2 as httpx

from pardec_chat.app.downloads import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_AGAIN = "Check the connection, then try again: what has come is kept."


def without_credentials(text: str) -> str:
    """`text` with user names and passwords cut out of the addresses in it."""
    return _CREDENTIALS.sub("", text)


def is_transient(status: int) -> bool:
    """Whether the same request may succeed a little later."""
    return status in _TRANSIENT


def refused(
    status: int, headers: Mapping[str, str], *, endpoint: str, repo: str, file: str, token_sent: bool
) -> errors.DownloadFailed:
    """The error for an answer of 400 and more by the Hub itself.

    `endpoint` is its address without a path; `file` is empty where the whole repository was asked for.
    """
    code = headers.get("X-Error-Code", "")
    message = headers.get("X-Error-Message", "")
    page, tokens = f"{endpoint}/{repo}", f"{endpoint}/settings/tokens"
    if status == 401 and not token_sent:
        licence = f"Accept its licence at {page}, then make" if code == "GatedRepo" else "Make"
        return errors.HubNeedsLogin(
            f"The Hub shows {repo} to nobody without a token: it is private, gated, or does not exist (401).",
            f"{licence} a read token at {tokens} and run `hf auth login`, or set HF_TOKEN.",
        )
    if status == 401:
        return errors.HubTokenRefused(
            "The Hub does not accept your token: it is mistyped, expired or revoked (401).",
            f"Make a new one at {tokens} and run `hf auth login`, or set HF_TOKEN to it.",
        )
    if status == 403 and message == "Access to this resource is disabled.":
        return errors.HubMissing(f"The Hub has disabled {repo} (403).", "Choose another model: `pardec-chat models`.")
    if status == 403 and code == "GatedRepo" and "fine-grained token" not in message:
        return errors.HubGated(
            f"{repo} is gated, and the account of your token has no access yet (403).",
            f"Accept its licence at {page}, wait for the grant if it asks for one, and try again.",
        )
    if status == 403:
        return errors.HubTokenLacksScope(
            f"Your token is valid, but its scope does not let it read {repo} (403).",
            f"At {tokens}, give it read access to this repository (for a fine-grained token also to public gated "
            "repositories), or use a token of the type 'read'.",
        )
    if status == 404:
        named = f"file {file} in {repo}" if file else f"such file in {repo}"
        lost = {"EntryNotFound": named, "RevisionNotFound": f"such revision of {repo}"}
        return errors.HubMissing(
            f"The Hub has no {lost.get(code, f'repository {repo}')} (404).",
            f"It may have been renamed or removed: look at {page}.",
        )
    if status == 429:
        return errors.HubUnreachable(
            "The Hub turns requests away: too many came from this address (429).",
            "Wait some minutes and try again: what has come is kept. Logged in, the limit is higher.",
        )
    return errors.HubUnreachable(f"The Hub answered with the error {status}.", _AGAIN)


def not_logged_in(status: int, *, endpoint: str) -> errors.DownloadFailed:
    """The error for an answer of 400 and more to the question whose token it is."""
    if status in (401, 403):
        return errors.HubTokenRefused(
            f"The Hub does not accept this token: it is mistyped, expired or revoked ({status}).",
            f"Copy it once more, or make a new one at {endpoint}/settings/tokens.",
        )
    if status == 429:
        return errors.HubUnreachable(
            "The Hub turns requests away: too many tokens were tried from this address (429).",
            "Wait some minutes, then try once more.",
        )
    if is_transient(status):
        return errors.HubUnreachable(f"The Hub answered with the error {status}.", "Try again later.")
    return errors.HubUnreachable(f"{endpoint} did not answer as a Hub does ({status}).", "Check HF_ENDPOINT.")


def unreachable(error: Exception, host: str) -> tuple[errors.HubUnreachable, bool]:
    """The error for a request that brought no usable answer, and whether trying again may help."""
    cause = without_credentials(str(error)).strip() or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in cause:
        return errors.HubUnreachable(
            f"The certificate of {host} is not trusted here: a proxy or virus scanner may be reading along.",
            "Set SSL_CERT_FILE to that proxy's CA certificate.",
        ), False
    if isinstance(error, httpx.ProxyError):
        return errors.HubUnreachable(
            f"The proxy refused the way to {host}: {cause}.",
            "Check HTTPS_PROXY and NO_PROXY, and what the proxy allows.",
        ), False
    if isinstance(error, (httpx.ConnectTimeout, httpx.ConnectError)):
        return errors.HubUnreachable(f"{host} cannot be reached: {cause}.", _AGAIN), True
    if isinstance(error, httpx.TimeoutException):
        return errors.HubUnreachable(f"{host} stopped sending.", _AGAIN), True
    if isinstance(error, (httpx.NetworkError, httpx.RemoteProtocolError)):
        return errors.HubUnreachable(f"The connection to {host} broke: {cause}.", _AGAIN), True
    return errors.HubUnreachable(f"{host} did not answer as a Hub does: {cause}.", "Check HF_ENDPOINT."), False
