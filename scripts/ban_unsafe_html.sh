#!/bin/sh
# unsafe_allow_html lets text from a user or a file run script in the page. Use st.text, or
# st.html on text that went through html.escape. Ruff has no rule for an argument's name.
cd "$(dirname "$0")/.." || exit 1
if grep -rn --include='*.py' unsafe_allow_html app pages budgetformer streamlit_app.py; then
    echo "unsafe_allow_html is banned: see CONTRIBUTING.md" >&2
    exit 1
fi
