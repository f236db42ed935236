"""What the limits of a fingerprint are called wherever it is shown; in JSON they keep their own names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LIMIT_NAMES: Final[Mapping[str, str]] = {"max_tokens": "max tokens", "max_iterations": "max turns"}
