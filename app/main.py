"""The pages of the app, and what all of them share."""

import sys
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).resolve().parent.parent
# `streamlit run` puts only this file's folder on the path.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from app import errors

st.set_page_config(
    page_title="BudgetFormer", page_icon=str(ROOT / "app" / "icon.svg"), layout="wide"
)
st.html(ROOT / "app" / "style.css")

PAGES = {
    name: st.Page(
        ROOT / "pages" / f"{name.lower()}.py", title=name, icon=f":material/{icon}:", help=text
    )
    for name, icon, text in (
        ("Explore", "search", "How many attention heads a model runs for a text, and which."),
        ("Compare", "compare_arrows", "Two texts, or two models, side by side."),
        ("Examples", "scatter_plot", "Which texts are hard, which are dear, where they differ."),
        ("Heads", "grid_view", "Which heads a data set uses, which matter, what else could run."),
        ("Efficiency", "speed", "What accuracy costs in heads, time and energy; set a limit."),
        ("Train", "model_training", "Train a model and watch its budget being learned."),
        ("Models", "deployed_code", "All models; add your own; choose the one to start with."),
    )
}


def first_page() -> None:
    """Send visitors of / on, so that each page has one address; a default page has only /."""
    # A copy: switch_page empties st.query_params before it reads what it is given.
    st.switch_page(PAGES["Explore"], query_params=st.query_params.to_dict())


home = st.Page(first_page, title="BudgetFormer", default=True, visibility="hidden")
open_page = st.navigation([home, *PAGES.values()])
if open_page is not home:
    st.title(open_page.title)  # before the page's imports, which take seconds after a start
with errors.panel("This page stopped"):
    open_page.run()
