"""What the Hub's own library keeps on this disk: files that other programs have downloaded, and the user's token.

That library is asked where things are and imported only then, since it takes a while.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pardec_chat.app.downloads.errors import HubTokenRefused, TokenNotStored

if TYPE_CHECKING:
    from pardec_chat.app.catalogue import HubSource

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file in the cache: where it was in its repository, where it is now, and its size in bytes."""

    repo: str
    file: str
    path: Path
    size: int


def find(source: HubSource, size: int) -> Path | None:
    """Where exactly this file lies in the cache, if it has `size` bytes; its contents are still to be verified."""
    from huggingface_hub import constants, try_to_load_from_cache

    try:
        path = try_to_load_from_cache(
            source.repo, source.file, cache_dir=constants.HF_HUB_CACHE, revision=source.revision or "main"
        )
        if isinstance(path, str) and Path(path).stat().st_size == size:
            return Path(path).absolute()
    except (OSError, ValueError) as error:
        _log.info("the Hub's cache is passed over: %s", error)
    return None


def gguf_files() -> tuple[CachedFile, ...]:
    """All GGUF files of models in the cache, each at its newest revision; none where there is no cache to be read."""
    from huggingface_hub import constants, scan_cache_dir

    found: dict[tuple[str, str], CachedFile] = {}
    try:
        for repo in scan_cache_dir(constants.HF_HUB_CACHE).repos:
            if repo.repo_type != "model":
                continue
            newest_last = sorted(repo.revisions, key=lambda revision: (bool(revision.refs), revision.last_modified))
            for revision in newest_last:
                for file in revision.files:
                    name = file.file_path.relative_to(revision.snapshot_path).as_posix()
                    if name.lower().endswith(".gguf") and file.size_on_disk:
                        cached = CachedFile(repo.repo_id, name, file.file_path, file.size_on_disk)
                        found[repo.repo_id, name] = cached
    except Exception as error:  # noqa: BLE001  # another program's folder may be in any state
        _log.info("the Hub's cache is passed over: %s", error)
        return ()
    return tuple(found[key] for key in sorted(found))


def token() -> str | None:
    """The user's own token, as the Hub's library finds it. Raises HubTokenRefused where it cannot be read."""
    from huggingface_hub import get_token

    try:
        return get_token()
    except Exception as error:  # noqa: BLE001  # files that cannot be read, or a failed exchange on a CI machine
        raise HubTokenRefused(
            f"Your stored Hub token cannot be read: {_reason(error)}.", "Run `hf auth login`, or set HF_TOKEN."
        ) from None


def keep_token(token: str) -> None:
    """Has the Hub's library check and keep the token. Raises TokenNotStored."""
    from huggingface_hub import login

    set_by_hand = (os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or "").strip()
    if set_by_hand == token:
        return
    if set_by_hand:
        raise TokenNotStored(
            "HF_TOKEN is set to another token, which goes before every stored one.",
            "Unset it, or set it to the new token, and start again.",
        )
    try:
        login(token=token, add_to_git_credential=False)
    except Exception as error:  # noqa: BLE001  # it asks the Hub once more, and writes two files
        # What the library says is not repeated: the token might be in it.
        raise TokenNotStored(
            f"The token is right, but the Hub's library could not keep it: {_reason(error)}.",
            "Run `hf auth login`, or set HF_TOKEN.",
        ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f" ({error.filename})" if error.filename else "")
    return type(error).__name__
