"""A real S3 server on loopback (moto's), and a way to it that delays and drops what it carries."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from dask_cluster import PATIENCE_S, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUCKET = "sweeps"

READ_BYTES = 1 << 16


def environment(port: int) -> dict[str, str]:
    """Tell every client of S3 where the server is, as its users would."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "2",
    }


def forget_clients() -> None:
    """Let go of clients of this process, which know a server by its name alone."""
    import s3fs  # noqa: PLC0415 - as below

    s3fs.S3FileSystem.clear_instance_cache()


@contextlib.contextmanager
def s3_server(folder: Path) -> Iterator[int]:
    """Begin the server with an empty bucket, and give its port."""
    port = free_port()
    with (folder / "s3.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=log,
            stderr=log,
            env={**os.environ, **environment(port)},
        )
    try:
        _await_port(port)
        import boto3  # noqa: PLC0415 - it takes its time
        from botocore.config import Config  # noqa: PLC0415 - as above

        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            aws_access_key_id="tests",
            aws_secret_access_key="tests",  # noqa: S106 - no secret
            region_name="us-east-1",
            config=Config(retries={"max_attempts": 10}),
        )
        client.create_bucket(Bucket=BUCKET)
        yield port
    finally:
        process.kill()
        process.wait()


def _await_port(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        assert time.monotonic() < deadline, "the server did not begin"
        time.sleep(0.05)


@contextlib.contextmanager
def slow_way(target: int, delay_s: float, dropped: float, seed: int) -> Iterator[int]:
    """Listen on a port from which all goes to another, late, and some connections end at once."""
    generator = random.Random(seed)  # noqa: S311 - no secret
    listener = socket.create_server(("127.0.0.1", 0))
    closing = threading.Event()

    def carry(source: socket.socket, sink: socket.socket, wait_s: float) -> None:
        with contextlib.suppress(OSError):
            while content := source.recv(READ_BYTES):
                time.sleep(wait_s)
                sink.sendall(content)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def listen() -> None:
        while not closing.is_set():
            try:
                near, _ = listener.accept()
            except OSError:
                return
            if generator.random() < dropped:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", target))
            for source, sink, wait_s in ((near, far, delay_s), (far, near, 0.0)):
                threading.Thread(target=carry, args=(source, sink, wait_s), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    try:
        port: int = listener.getsockname()[1]
        yield port
    finally:
        closing.set()
        listener.close()
