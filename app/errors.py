"""The one way in which the app says that something went wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import streamlit as st

from app.layout import slot

ROOT = Path(__file__).resolve().parent.parent
log = logging.getLogger("budgetformer")
OUR_FAULT = "Something went wrong that should not have. The server's log has the details."


@contextmanager
def panel(title: str) -> Iterator[None]:
    """Run a block; if it fails, say what went wrong in its place and go on after it.

    A ValueError is meant for users and shown as it is. Anything else is our own fault: the log
    gets the traceback, the page a plain sentence. Streamlit's own control flow passes through.
    """
    with slot():
        try:
            yield
        except ValueError as error:
            show(title, str(error))
        except Exception:
            log.exception(title)
            show(title, OUR_FAULT)


def show(title: str, message: str) -> None:
    """Draw the error panel. The message may quote files and users, so it is plain text."""
    with st.container(border=True, gap="small"):
        st.markdown(f":red[:material/error: **{title}**]")
        # Where the project lies on the server is nobody's business.
        st.text(message.replace(f"{ROOT}/", ""))
