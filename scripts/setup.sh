#!/bin/sh
# Make .venv and install the pinned requirements. Does nothing where that is done already.
#   scripts/setup.sh        what the app needs
#   scripts/setup.sh dev    what tests and checks need as well
# PYTHON=/path/to/python picks the interpreter; otherwise the newest that works is taken.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd -P)

say() { printf 'BudgetFormer: %s\n' "$*"; }
fail() { printf 'BudgetFormer: error: %s\n' "$*" >&2; exit 1; }

# Prints 3.12.1, or nothing: a command on PATH may still fail when run, as pyenv's shims do.
version_of() {
    "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null </dev/null |
        sed -n 's/^[^0-9]*\([0-9][0-9.]*\)$/\1/p'
}

new_enough() {
    case "$1" in
        '' | [012].* | 3.[0-9] | 3.[0-9].* | 3.10 | 3.10.*) return 1 ;;
    esac
}

# Sets $python and $version, or stops with the one line that says what to do.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        set -- "$PYTHON"
    else
        set -- python3.14 python3.13 python3.12 python3.11 python3 python
    fi
    found=
    for python; do
        version=$(version_of "$python")
        if new_enough "$version"; then
            # Debian and Ubuntu ship Python without venv; such a one cannot be used.
            if "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then return; fi
            version="$version without venv (on Debian: apt-get install python3-venv)"
        fi
        [ -z "$version" ] || found="$found${found:+, }$python ($version)"
    done
    fail "Python 3.11 or newer is needed; found ${found:-no ${PYTHON:-Python} that runs}." \
        "Install one (https://www.python.org/downloads/)" \
        "or name one: make app PYTHON=/path/to/python3"
}

# .venv/unfinished holds the process id of whoever is installing. It is still there when that
# process was killed, and what it left can then be in any state.
wait_for_others() {
    other=$(cat .venv/unfinished 2>/dev/null) || return 0
    if [ -n "$other" ] && kill -0 "$other" 2>/dev/null; then
        say "waiting for another installation, process $other" \
            "(if that is something else: make distclean)"
        while kill -0 "$other" 2>/dev/null && [ -e .venv/unfinished ]; do sleep 1; done
    fi
}

# Why .venv cannot be used, or nothing. pip's first line names the folder that .venv was made in.
fault() {
    if [ -e .venv/unfinished ]; then
        echo "its installation was interrupted"
    elif ! new_enough "$(version_of .venv/bin/python)"; then
        echo "its Python does not run or is too old"
    elif ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        echo "its pip does not run"
    elif ! grep -qF "$root/.venv/bin/" .venv/bin/pip 2>/dev/null; then
        echo "it was made in another folder"
    elif [ -n "${PYTHON:-}" ] && [ "$(version_of .venv/bin/python)" != "$version" ]; then
        echo "its Python is not $version"
    fi
}

# Done when .venv holds a copy of the very same file.
install_pinned() {
    if cmp -s "$1" ".venv/$1"; then return; fi
    echo $$ >.venv/unfinished
    # torch goes first and alone. Asked for together with the rest, pip may settle another
    # package's wish for "torch" with a newer and much larger build.
    torch=$(grep '^torch==' requirements.txt)
    if ! .venv/bin/python -c "import importlib.metadata as m
exit(m.version('torch').split('+')[0] != '${torch#*==}')" 2>/dev/null; then
        say "installing $torch, the largest part (minutes)"
        run_pip "$torch"
    fi
    say "installing what $1 lists"
    run_pip -r "$1"
    cp "$1" ".venv/$1"
    rm .venv/unfinished
}

run_pip() {
    # A pip that stops by itself has cleaned up, so the next try may go on from there.
    .venv/bin/python -m pip install -qq --no-input --disable-pip-version-check "$@" || {
        rm -f .venv/unfinished
        fail "pip could not install $*. See its message above, then run make again."
    }
}

[ -z "${PYTHON:-}" ] || find_python
wait_for_others
if [ -e .venv ] || [ -L .venv ]; then
    reason=$(fault)
    if [ -n "$reason" ]; then
        say "making .venv anew: $reason"
        rm -rf .venv
    fi
fi
if [ ! -e .venv ]; then
    find_python
    say "making .venv with Python $version"
    mkdir .venv
    echo $$ >.venv/unfinished
    "$python" -m venv "$root/.venv" || fail "$python -m venv failed, see above."
    rm .venv/unfinished
fi
install_pinned requirements.txt
if [ "${1:-}" = dev ]; then install_pinned requirements-dev.txt; fi
