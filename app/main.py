"""The pages of the app, and what all of them share."""

import sys
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

ROOT = Path(__file__).resolve().parent.parent
# `streamlit run` puts only this file's folder on the path.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from app import errors

st.set_page_config(
    page_title="BudgetFormer", page_icon=str(ROOT / "app" / "icon.svg"), layout="wide"
)
st.html(ROOT / "app" / "style.css")


def page(name: str, icon: str, help: str) -> StreamlitPage:
    """Return the page of that name, which lies in pages/."""
    return st.Page(
        ROOT / "pages" / f"{name.lower()}.py", title=name, icon=f":material/{icon}:", help=help
    )


explore = page(
    "Explore",
    "search",
    "Type a text and see how many attention heads the model runs for it, and which.",
)
pages = [
    explore,
    page("Compare", "compare_arrows", "Put two texts, or two models, side by side."),
    page(
        "Examples",
        "scatter_plot",
        "See a whole data set: which texts are hard, which are dear, and where the two differ.",
    ),
    page(
        "Heads",
        "grid_view",
        "See which heads a whole data set uses, which of them matter, and what else could be run.",
    ),
    page(
        "Efficiency",
        "speed",
        "See what accuracy costs in heads, operations, time and energy, and set a limit.",
    ),
    page(
        "Train",
        "model_training",
        "Train a model of your own, and watch how its budget is learned.",
    ),
    page(
        "Models",
        "deployed_code",
        "See which models there are, add your own, and set the one that the pages open with.",
    ),
]


def first_page() -> None:
    """Send visitors of / on, so that each page has one address; a default page has only /."""
    # A copy: switch_page empties st.query_params before it reads what it is given.
    st.switch_page(explore, query_params=st.query_params.to_dict())


home = st.Page(first_page, title="BudgetFormer", default=True, visibility="hidden")
open_page = st.navigation([home, *pages])
if open_page is not home:
    st.title(open_page.title)  # before the page's imports, which take seconds after a start
with errors.panel("This page stopped"):
    open_page.run()
