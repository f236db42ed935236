"""The entry point. It imports as little as possible: `refold --version` is answered from here."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from refold.core.version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code; no traceback leaves here."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        if arguments in (["--version"], ["-V"]):
            print(f"refold {__version__}", flush=True)
            return 0
        from refold.app.cli_main import run

        code = run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        from refold.app.cli_exit import INTERRUPTED

        return INTERRUPTED
    except OSError as error:
        from refold.app.cli_exit import output_lost

        return output_lost(error)
    return code
