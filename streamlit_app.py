"""The entry point of `streamlit run`, also on a host that expects this file name.

It holds no page itself: a page script next to pages/ would switch on Streamlit's own page
discovery, which breaks links to a page. app/main.py is the router.
"""

from pathlib import Path

import streamlit as st

app = st.App(Path(__file__).parent / "app" / "main.py")
