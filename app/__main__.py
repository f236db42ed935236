"""`python -m refold.app` is `refold`."""

from __future__ import annotations

import sys

from refold.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
