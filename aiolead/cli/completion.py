"""`aiolead completion`."""

from __future__ import annotations

from typing import Literal

from .output import write_line


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print what completes this command's options in a shell.

    For bash: aiolead completion bash > ~/.local/share/bash-completion/completions/aiolead

    Args:
        shell: The shell.
    """
    from .app import app  # which imports this command

    for name in app:
        app[name]  # imports it
    write_line(app.generate_completion(shell=shell), keep="\n\t")
