"""`aiolead completion`."""

from __future__ import annotations

from typing import Literal

from . import exits
from .output import write_line

__all__ = ["completion"]


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print what completes this command's options in a shell.

    For bash: aiolead completion bash > ~/.local/share/bash-completion/completions/aiolead

    Args:
        shell: The shell.
    """
    from .app import app  # which has this command, too

    write_line(app.generate_completion(shell=shell), keep="\n\t")
    return exits.OK
