"""Serve the app on a free port and open it in the browser of a desktop."""

from __future__ import annotations

import argparse
import errno
import os
import socket
import sys
import threading
import time
import urllib.request
import webbrowser
from pathlib import Path

import click
from streamlit.web.cli import main as streamlit

ROOT = Path(__file__).resolve().parent.parent


def is_free(address: str, port: int) -> bool:
    """True if the server can listen on a port and nobody else answers on it as localhost."""
    try:
        # A server on ::1 only would not be in our way, but it would get our visitors.
        with socket.create_connection(("localhost", port), timeout=0.5):
            return False
    except OSError:
        pass
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address, port))
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
            sys.exit(f"BudgetFormer: error: cannot listen on ADDRESS={address} ({error.strerror})")
    return True


def free_port(address: str, wanted: int) -> int:
    """Return the wanted port, or the next one that is free, and say so."""
    for port in range(wanted, min(wanted + 100, 65536)):
        if is_free(address, port):
            if port != wanted:
                print(f"BudgetFormer: port {wanted} is taken, using {port}", flush=True)
            return port
    sys.exit(f"BudgetFormer: error: port {wanted} is taken, and so are the next 99; set PORT=…")


def open_when_ready(url: str) -> None:
    """Open the browser once the server answers. Streamlit does not do it for an st.App."""
    # A proxy that is set for the internet cannot reach this machine's own server.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(240):
        try:
            opener.open(f"{url}/_stcore/health", timeout=1).close()
        except OSError:
            time.sleep(0.25)
        else:
            webbrowser.open(url)
            return


def has_desktop() -> bool:
    """True if a person is watching and a browser window can open."""
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.stdout.isatty() and bool(display or sys.platform == "darwin")


def main() -> None:
    """Run Streamlit in this process, so that it gets every signal itself."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8501)
    parser.add_argument("--address", default="localhost")
    args = parser.parse_args()
    if not 1 <= args.port <= 65535:
        parser.error(f"the port must lie between 1 and 65535, not {args.port}")

    port = free_port(args.address, args.port)
    host = "localhost" if args.address in {"0.0.0.0", "::"} else args.address
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    print(f"BudgetFormer: starting on {url} (Ctrl-C stops it)", flush=True)
    if has_desktop():
        threading.Thread(target=open_when_ready, args=(url,), daemon=True).start()

    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.chdir(ROOT)
    options = [f"--server.address={args.address}", f"--server.port={port}"]
    try:
        # headless: Streamlit asks nothing, looks nothing up, and leaves the browser to us.
        streamlit(
            ["run", "streamlit_app.py", "--server.headless=true", *options], standalone_mode=False
        )
    except (click.Abort, KeyboardInterrupt):
        print("BudgetFormer: stopped")


if __name__ == "__main__":
    main()
