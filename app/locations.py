"""Where the program keeps its files."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

_NAME = "pardec-chat"

#: Folder that holds `models.toml` and `assets`: the repository, or the installed package.
ROOT = Path(__file__).resolve().parent.parent


def models() -> Path:
    """Folder of downloaded models: `PARDEC_CHAT_MODELS`, or `models` under the user's data folder."""
    chosen = os.environ.get("PARDEC_CHAT_MODELS")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_dir(_NAME)) / "models"


def log_file() -> Path:
    """The log of this program and of the native libraries below it."""
    return Path(platformdirs.user_log_dir(_NAME)) / "pardec-chat.log"


def learned() -> Path:
    """Folder of what was measured about models on this machine; deleting it costs some answers' worth of learning."""
    return Path(platformdirs.user_cache_dir(_NAME)) / "learned"


def earlier() -> Path:
    """Folder of earlier answers that n-grams may copy from; there only where the user agreed to it."""
    return Path(platformdirs.user_data_dir(_NAME)) / "earlier"


def conversations() -> Path:
    """The file of conversations, in the folder `PARDEC_CHAT_DATA` or the user's data folder."""
    chosen = os.environ.get("PARDEC_CHAT_DATA")
    return (Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_dir(_NAME))) / "conversations.db"


def catalogue() -> Path:
    """The catalogue that comes with the program."""
    return ROOT / "models.toml"


def _config() -> Path:
    chosen = os.environ.get("PARDEC_CHAT_CONFIG")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_config_dir(_NAME))


def user_catalogue() -> Path:
    """The user's own `models.toml`, in the folder `PARDEC_CHAT_CONFIG` or the user's config folder; adds to ours."""
    return _config() / "models.toml"


def settings() -> Path:
    """The user's `settings.toml`, in the same folder as `user_catalogue`."""
    return _config() / "settings.toml"


def prompts() -> Path:
    """The benchmark's prompt sets, one TOML file a category."""
    return ROOT / "assets" / "prompts"


def pictures() -> Path:
    """Where files go that a user asks for: the folder of downloads, or the working one where there is none."""
    downloads = platformdirs.user_downloads_path()
    return downloads if downloads.is_dir() else Path.cwd()
