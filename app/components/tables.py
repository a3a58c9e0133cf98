"""Tables of numbers as HTML that follows the page's theme."""

from __future__ import annotations

import html
from collections.abc import Sequence

import streamlit as st


def table(head: Sequence[str], rows: Sequence[Sequence[str]], strong: Sequence[int] = ()) -> None:
    """Draw a table; every cell is plain text.

    Args:
        head: the columns' names.
        rows: a cell a column each.
        strong: indices of rows that stand out.
    """
    columns = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    body = "".join(
        f"<tr class='{'bf-strong' if i in strong else ''}'>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
        + "</tr>"
        for i, row in enumerate(rows)
    )
    st.html(
        f'<div class="bf-table" tabindex="0" role="region" aria-label="{html.escape(head[0])}">'
        f"<table><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def source(text: str) -> str:
    """Return the pill that says where numbers come from."""
    return f'<span class="bf-source">{html.escape(text)}</span>'
