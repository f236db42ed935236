"""What never reaches the terminal, whatever let it pass before."""

from __future__ import annotations

import re
from typing import Final

FORBIDDEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Characters that a terminal obeys, hides, or reorders the line by.

They are deleted, not replaced: Textual counts them as no cell, so a picture here would push the row out
of the terminal. Pictures are made by `app.safe`, which comes first.
"""
