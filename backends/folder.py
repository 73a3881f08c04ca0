"""A model's folder on disk, as Hugging Face and MLX write it: config.json beside safetensors files."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, Final

from pardec_chat.backends.errors import ModelUnreadable

#: More than this is no header of a safetensors file.
_MOST_HEADER: Final = 1 << 27


def read_config(folder: Path) -> dict[str, Any]:
    """The folder's config.json. Raises ModelUnreadable."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ModelUnreadable(f"{path} cannot be read: {error.strerror}.", "Give the folder of a model.") from error
    except ValueError as error:
        raise ModelUnreadable(f"{path} makes no sense.", "Fetch the folder again.") from error
    if not isinstance(config, dict):
        raise ModelUnreadable(f"{path} makes no sense.", "Fetch the folder again.")
    return config


def shards(folder: Path) -> list[Path]:
    """The safetensors files of a folder. Raises ModelUnreadable where there is none, or one of them is missing."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise ModelUnreadable(f"{index} makes no sense.", "Fetch the folder again.") from error
    else:
        names = ["model.safetensors"]
    found = [folder / Path(str(name)).name for name in names]
    for path in found:
        if not path.is_file():
            raise ModelUnreadable(
                f"{folder.name} has no {path.name}.",
                "Fetch the folder again; weights in pickles (.bin, .pt) are never read.",
            )
    return found


def tensors(path: Path) -> Iterator[tuple[str, int]]:
    """The name of each tensor in a safetensors file and how many numbers it has, from its header. Raises ModelUnreadable."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _MOST_HEADER:
                raise ValueError("no header")
            header = json.loads(file.read(length))
        for name, one in header.items():
            if name != "__metadata__":
                yield name, prod(one["shape"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise ModelUnreadable(f"{path} is damaged.", "Fetch the file again.") from error
