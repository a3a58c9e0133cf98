#!/bin/sh
# Print the path of a Chromium or Chrome for the browser tests; install one if there is none.
# BUDGETFORMER_BROWSER=/path names one. What is being done goes to stderr, only the path to stdout.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'BudgetFormer: %s\n' "$*" >&2; }

# A command that is there may still not start: Ubuntu's chromium-browser without snap, or a
# Playwright browser whose system libraries are missing.
runs() { [ -x "$1" ] && "$1" --version >/dev/null 2>&1 </dev/null; }

# Prints the first browser that starts.
find_browser() {
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        path=$(command -v "$name") || continue
        if runs "$path"; then echo "$path"; return; fi
    done
    path="/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
    if runs "$path"; then echo "$path"; return; fi
    path=$(.venv/bin/python -c 'from playwright.sync_api import sync_playwright
with sync_playwright() as p: print(p.chromium.executable_path)')
    if runs "$path"; then echo "$path"; return; fi
    return 1
}

# Debian's package brings its system libraries along, so it goes before Playwright's download.
install_browser() {
    is_root=$([ "$(id -u)" = 0 ] && echo yes || echo no)
    if [ "$is_root" = yes ] && grep -qx 'ID=debian' /etc/os-release 2>/dev/null; then
        say "installing Debian's chromium for the browser tests"
        export DEBIAN_FRONTEND=noninteractive
        # An outdated index of one repository must not stop the others.
        apt-get update -qq >&2 || say "apt-get update failed, going on with the old index"
        apt-get install -y -qq --no-install-recommends chromium fonts-liberation >&2 && return
    fi
    say "installing Playwright's chromium for the browser tests"
    if [ "$is_root" = yes ] && command -v apt-get >/dev/null; then
        .venv/bin/python -m playwright install --with-deps chromium >&2
    else
        .venv/bin/python -m playwright install chromium >&2
    fi
}

if [ -n "${BUDGETFORMER_BROWSER:-}" ]; then
    if runs "$BUDGETFORMER_BROWSER"; then echo "$BUDGETFORMER_BROWSER"; exit; fi
    say "error: BUDGETFORMER_BROWSER=$BUDGETFORMER_BROWSER does not start."
    exit 1
fi
find_browser && exit
install_browser || true
find_browser && exit
say "error: the browser tests need Chromium or Chrome and none could be installed." \
    "Install one, or name one with BUDGETFORMER_BROWSER=/path/to/chrome." \
    "The other tests run without: .venv/bin/python -m pytest tests/unit tests/app"
exit 1
