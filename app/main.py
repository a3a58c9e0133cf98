"""The router: one line a page, and what all pages share."""

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

explore = st.Page(
    ROOT / "pages" / "explore.py",
    title="Explore",
    icon=":material/search:",
    help="Type a text and see how many attention heads the model runs for it, and which.",
)

compare = st.Page(
    ROOT / "pages" / "compare.py",
    title="Compare",
    icon=":material/compare_arrows:",
    help="Put two texts, or two models, side by side.",
)


def first_page() -> None:
    """Send visitors of / on, so that each page has one address; a default page has only /."""
    # A copy: switch_page empties st.query_params before it reads what it is given.
    st.switch_page(explore, query_params=st.query_params.to_dict())


home = st.Page(first_page, title="BudgetFormer", default=True, visibility="hidden")
page = st.navigation([home, explore, compare])
if page is not home:
    st.title(page.title)  # before the page's imports, which take seconds after a start
with errors.panel("This page stopped"):
    page.run()
