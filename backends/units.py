"""Amounts in words."""

from __future__ import annotations


def size(n_bytes: int) -> str:
    """Bytes as MB or GB, decimal as on download pages and disks."""
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 999_500_000 else f"{max(1, round(n_bytes / 1e6))} MB"
