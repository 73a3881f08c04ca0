"""What can go wrong between a catalogue's entry and a model on disk."""

from __future__ import annotations

from pardec_chat.backends.errors import ModelUnreadable, UserError


class DownloadFailed(UserError):
    """One source could not give the file; the next source may."""


class HubNeedsLogin(DownloadFailed):
    """The Hub answered 401 to a request without a token."""


class HubTokenRefused(DownloadFailed):
    """The Hub answered 401 to a request with a token: it is wrong, expired or revoked."""


class HubGated(DownloadFailed):
    """The account has not accepted the model's licence, or waits for access."""


class HubTokenLacksScope(DownloadFailed):
    """The token is valid but may not read this repository."""


class HubMissing(DownloadFailed):
    """No such repository, revision or file on the Hub."""


class HubUnreachable(DownloadFailed):
    """The Hub could not be reached, stalled, or kept failing; or it is switched off by HF_HUB_OFFLINE."""


class SourceDiffers(DownloadFailed):
    """A source holds another file than the catalogued one: its size or its SHA-256 is different."""


class SourceUnverifiable(SourceDiffers):
    """Neither the catalogue nor the source knows the file's whole SHA-256, so a wrong file could not be told."""


class RepoNameWrong(DownloadFailed):
    """The text is neither OWNER/NAME nor the address of a model's page on the Hub."""


class WheelUnavailable(DownloadFailed):
    """The package index has no such wheel, or pip could not fetch it."""


class WheelBroken(DownloadFailed):
    """A wheel cannot be unpacked, or does not hold the expected member."""


class AllSourcesFailed(DownloadFailed):
    """Every source of a model failed, each in its own way."""


class DiskTooSmall(UserError):
    """Less space is free than the rest of the file needs; found before the first byte is fetched."""


class DiskFull(UserError):
    """The disk filled up while the file was written; the part that fitted is kept."""


class FolderUnusable(UserError):
    """The models folder cannot be made, read or written."""


class AlreadyRunning(UserError):
    """Another process or thread is working on the same model."""


class PullStopped(UserError):
    """The user stopped the download; what had come is kept."""

    exit_code = 130


class ModelUnknown(UserError):
    """Neither an id that is known nor a file."""


class ModelNotHere(UserError):
    """The model is catalogued or was added, but its file is not on this disk."""


class NotGguf(ModelUnreadable):
    """The file is not in GGUF format."""


class HelperFile(ModelUnreadable):
    """The file belongs to a model, and is none itself: a vision projector, an importance matrix, a head."""


class OfferUnusable(UserError):
    """What was chosen in a repository cannot be fetched as a model; the repository's list says why."""


class TokenNotStored(UserError):
    """The Hub accepts the token, but its own library could not keep it, or another one goes before it."""
