"""`aiolead doctor`: what is wrong, or may become so, with what to do about it."""

from .command import doctor as doctor

__all__ = ["doctor"]
