"""Take what is shown away: a table as CSV, a figure as a page of its own or as an image.

Nothing here asks a network: plotly's own script goes into the page, and images are made by the
browser.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

IMAGES = {"png": "PNG", "svg": "SVG"}
IMAGE_KEY = "download_image"
INK, PAPER = "#1b2733", "#ffffff"


def file_name(*parts: str) -> str:
    """Return a name for a file that every system takes, without its ending."""
    return re.sub(r"[^\w.-]+", "-", "-".join(parts)).strip("-.")[:80] or "download"


def csv_button(
    make: Callable[[], pd.DataFrame], name: str, key: str, label: str = "CSV", help: str = ""
) -> None:
    """Draw a button that downloads a table; it is made when somebody presses it.

    Args:
        make: gives the table.
        name: of the file, without its ending.
        key: of the button.
        label: of the button.
        help: what the table holds.
    """

    def data() -> bytes:
        # The mark at the start tells Excel that it is UTF-8.
        return make().to_csv(index=False).encode("utf-8-sig")

    st.download_button(
        label, data, f"{name}.csv", "text/csv", key=key, icon=":material/download:",
        on_click="ignore", help=help or "The table, for a spreadsheet or a program.",
    )  # fmt: skip


def figure_menu(
    figure: go.Figure,
    alt: str,
    name: str,
    key: str,
    table: Callable[[], pd.DataFrame] | None = None,
) -> None:
    """Draw the menu that takes a figure away.

    Args:
        figure: what is shown.
        alt: the sentence that says the same.
        name: of the files, without their ending.
        key: prefix of the widgets'.
        table: gives the numbers behind the figure.
    """
    with st.popover("Download", icon=":material/download:", width="content"):
        st.download_button(
            "Page with the figure (HTML)", lambda: figure_page(figure, alt, name).encode(),
            f"{name}.html", "text/html", key=f"{key}_html", icon=":material/web:",
            on_click="ignore", width="stretch",
            help="One file that opens in any browser without a network; points can be hovered and "
            "zoomed there too.",
        )  # fmt: skip
        if table is not None:
            csv_button(table, name, f"{key}_csv", "Numbers (CSV)")
        st.radio(
            "The camera above the figure makes",
            list(IMAGES),
            format_func=lambda kind: IMAGES.get(kind, kind),
            key=IMAGE_KEY + key,
            horizontal=True,
            persist_state="session",
            help="Rest the pointer on the figure to see the camera. The image has the colours of "
            "the page: print from the light theme.",
        )


def chart_config(name: str, key: str, buttons: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the settings of a chart whose camera saves an image.

    Args:
        name: of the image, without its ending.
        key: prefix of the widgets of `figure_menu`.
        buttons: plotly's names of further buttons.
    """
    image = st.session_state.get(IMAGE_KEY + key) or "png"
    return {
        "displaylogo": False,
        "modeBarButtons": [[*buttons, "toImage"]],
        "toImageButtonOptions": {"format": image, "filename": name, "scale": 2},
    }


def figure_page(figure: go.Figure, alt: str, title: str) -> str:
    """Return a page that holds the figure and plotly's script: it needs nothing else."""
    import plotly.graph_objects as go

    shown = go.Figure(figure)
    shown.update_layout(paper_bgcolor=PAPER, plot_bgcolor=PAPER, font={"color": INK, "size": 14})
    drawn = shown.to_html(full_html=False, include_plotlyjs=True, config={"displaylogo": False})
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title>"
        f"<style>body{{font:16px/1.5 system-ui,sans-serif;color:{INK};background:{PAPER};"
        "max-width:76rem;margin:1rem auto;padding:0 1rem}</style></head><body>"
        f"{drawn}<p>{html.escape(alt)}</p></body></html>"
    )
