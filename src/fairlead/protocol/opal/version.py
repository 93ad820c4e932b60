"""The version of Opal's protocol that is spoken here."""

from __future__ import annotations

PROTOCOL_VERSION = "0.1.0"
