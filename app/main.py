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

examples = st.Page(
    ROOT / "pages" / "examples.py",
    title="Examples",
    icon=":material/scatter_plot:",
    help="See a whole data set: which texts are hard, which are dear, and where the two differ.",
)

heads = st.Page(
    ROOT / "pages" / "heads.py",
    title="Heads",
    icon=":material/grid_view:",
    help="See which heads a whole data set uses, which of them matter, and what else could be run.",
)

efficiency = st.Page(
    ROOT / "pages" / "efficiency.py",
    title="Efficiency",
    icon=":material/speed:",
    help="See what accuracy costs in heads, operations, time and energy, and set a limit.",
)

train = st.Page(
    ROOT / "pages" / "train.py",
    title="Train",
    icon=":material/model_training:",
    help="Train a model of your own, and watch how its budget is learned.",
)

models = st.Page(
    ROOT / "pages" / "models.py",
    title="Models",
    icon=":material/deployed_code:",
    help="See which models there are, add your own, and set the one that the pages open with.",
)


def first_page() -> None:
    """Send visitors of / on, so that each page has one address; a default page has only /."""
    # A copy: switch_page empties st.query_params before it reads what it is given.
    st.switch_page(explore, query_params=st.query_params.to_dict())


home = st.Page(first_page, title="BudgetFormer", default=True, visibility="hidden")
page = st.navigation([home, explore, compare, examples, heads, efficiency, train, models])
if page is not home:
    st.title(page.title)  # before the page's imports, which take seconds after a start
with errors.panel("This page stopped"):
    page.run()
