"""How far a long piece of work is, as it is told to whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""(done, in all), in examples, passes or steps."""


def counted(progress: Progress | None, total: int) -> Callable[[int], None]:
    """Return what adds up parts of a work of known size and reports the sum."""
    done = 0

    def advance(n: int) -> None:
        nonlocal done
        done += n
        if progress:
            progress(done, total)

    return advance
