"""The command line."""

from __future__ import annotations

from typing import NoReturn


def main() -> None:
    """Entry point: a user's mistake is one clear line on stderr and exit code 2, never a traceback."""
    from pramana.errors import PramanaError

    try:
        from pramana.cli.application import app

        code = app(standalone_mode=False)
    except PramanaError as error:
        from pramana.cli.speech import in_the_shell

        _leave(f"error: {in_the_shell(str(error))}")
    except BrokenPipeError:
        _leave_quietly()
    except OSError as error:
        _leave(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}")
    except KeyboardInterrupt:
        _leave("interrupted", 130)
    except Exception as error:
        _leave_misused(error)
    if isinstance(code, int) and code:
        raise SystemExit(code)


def _leave(line: str, code: int = 2) -> NoReturn:
    import sys

    from pramana.errors import printable

    if sys.stderr is not None:
        sys.stderr.write(printable(" ".join(line.split())) + "\n")
    raise SystemExit(code) from None


def _leave_misused(error: Exception) -> NoReturn:
    """Wrong use of the command line, which typer reports with exceptions of its own; a bare command has shown its help by now."""
    if type(error).__name__ == "NoArgsIsHelpError":
        raise SystemExit(2) from None
    if not hasattr(error, "format_message"):
        raise error
    command = getattr(getattr(error, "ctx", None), "command_path", "pramana")
    _leave(f"error: {error.format_message().rstrip('.')}: see '{command} --help'")


def _leave_quietly() -> NoReturn:
    """The reader of our output has gone, as `head` does: nothing is left to say, not even at shutdown."""
    import os
    import sys

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(1) from None
