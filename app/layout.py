"""Where things stand on a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st


@contextmanager
def slot() -> Iterator[None]:
    """Hold one place for what is not always there, or not always as long; also a decorator.

    Streamlit tells what stands on a page by its position. Without a place of its own, what comes
    or goes moves all that follows, and until the run ends the browser shows that twice: as it was
    and as it is. A slot with nothing in it takes no room.
    """
    with st.container():
        yield
