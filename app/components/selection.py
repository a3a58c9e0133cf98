"""What was picked on a chart or in a table, once for each pick."""

from __future__ import annotations

from typing import Any

import streamlit as st


def taken(chart: str, what: str = "points") -> list[Any]:
    """Return a pick that was not returned before; empty where there is none.

    Read it before anything is drawn that follows from it, so that one run is enough.

    Args:
        chart: key of the chart or table.
        what: "points" of a chart, "rows" of a table.
    """
    found = (st.session_state.get(chart) or {}).get("selection", {}).get(what) or []
    if found == st.session_state.get(_seen(chart), []):
        return []
    st.session_state[_seen(chart)] = found
    return list(found)


def forget_lost(chart: str, event: Any, what: str = "points") -> None:
    """Allow the same pick again where the chart, having changed, has lost it.

    Args:
        chart: key of the chart or table.
        event: what drawing it returned.
        what: as for `taken`.
    """
    if not event["selection"][what]:
        st.session_state.pop(_seen(chart), None)


def _seen(chart: str) -> str:
    return f"{chart}_seen"
