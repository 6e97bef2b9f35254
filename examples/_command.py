"""The examples as commands: `--help`, a usage line, one line at Ctrl-C. Nothing of it is aiolead's.

    with command(main) as arguments:
        asyncio.run(main(*arguments))

The arguments are those of `main`; a `Literal` is a choice. In a program of your own, write
`asyncio.run(main())`, `trio.run(main)` or `anyio.run(main)`, and use the command line library that
you like.
"""

import argparse
import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args, get_origin, get_type_hints

import aiolead

LOCAL = "127.0.0.1:2181"
"""Where `aiolead server` listens."""


@contextmanager
def command(main: Callable[..., Any]) -> Iterator[list[Any]]:
    text = sys.modules["__main__"].__doc__ or ""
    arguments = _parse(main, text)
    os.environ.setdefault("AIOLEAD_HOSTS", LOCAL)
    if sys.stderr.isatty():
        print(f"{text.partition(chr(10) * 2)[0]} (Ctrl-C ends it.)", file=sys.stderr)
    # SIGTERM, which supervisors send, is Ctrl-C here, with every event loop and without one. SIGINT
    # may be ignored, as in what a shell script starts in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield arguments
    except BaseException as error:
        _end(error)


def _parse(main: Callable[..., Any], text: str) -> list[Any]:
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    types = get_type_hints(main)
    names = []
    for name, parameter in inspect.signature(main).parameters.items():
        options: dict[str, Any] = {"type": types.get(name, str)}
        if get_origin(options["type"]) is Literal:
            options |= {"type": str, "choices": get_args(types[name])}
        if parameter.kind is parameter.VAR_POSITIONAL:
            options["nargs"] = "*"
        elif parameter.default is not parameter.empty:
            options |= {"nargs": "?", "default": parameter.default}
        parser.add_argument(name, **options)
        names.append((name, parameter.kind is parameter.VAR_POSITIONAL))
    given = vars(parser.parse_args())
    return [each for name, many in names for each in (given[name] if many else [given[name]])]


def _end(error: BaseException) -> None:
    """End with one line for Ctrl-C, and where no server is reached; raise everything else."""
    leaves = list(_leaves(error))
    if any(isinstance(each, KeyboardInterrupt) for each in leaves):
        print("stopped by Ctrl-C", file=sys.stderr)
        raise SystemExit(130) from None
    if all(isinstance(each, aiolead.errors.TransportError) for each in leaves):
        print(f"{leaves[0]} (to start a server: aiolead server)", file=sys.stderr)
        raise SystemExit(69) from None
    raise error


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group, such as that of a task group; or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
