"""A real PostgreSQL server on loopback, where its programs are installed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from dask_cluster import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

USER = "tests"


def programs() -> Path:
    """Find the server's programs, or skip the test with the package to install."""
    found = shutil.which("initdb")
    # Debian keeps them apart, a folder per version.
    kept = [Path(found)] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not kept:
        pytest.skip("PostgreSQL is missing: install the Debian package postgresql")
    return kept[-1].parent


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """Begin a server with an empty database, and give its address."""
    binaries = programs()
    port = free_port()
    # The server refuses to run as root, and its user cannot look into the folders of a test.
    own = "postgres" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        if own is not None:
            shutil.chown(folder, own)

        def run(name: str, *words: str) -> None:
            done = subprocess.run(
                [binaries / name, "-D", f"{folder}/data", *words],
                check=False,
                capture_output=True,
                text=True,
                user=own,
                cwd=folder,
            )
            assert done.returncode == 0, done.stderr

        run("initdb", "--auth", "trust", "--username", USER, "--no-sync")
        options = f"-p {port} -h 127.0.0.1 -k {folder} -F"
        run("pg_ctl", "-w", "-l", f"{folder}/log", "-o", options, "start")
        try:
            yield f"postgresql://{USER}@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
