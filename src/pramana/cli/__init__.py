"""The command line."""

from __future__ import annotations


def main() -> None:
    """Entry point: a user's mistake is one clear line on stderr and exit code 2, never a traceback."""
    import sys

    from pramana.errors import PramanaError

    try:
        from pramana.cli.application import app

        app()
    except PramanaError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(2) from None
    except OSError as error:
        sys.stderr.write(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(130) from None
