"""A real Dask cluster on loopback, begun from the command line: scheduler and workers, with TLS."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PATIENCE_S = 60.0


def certificates(folder: Path) -> list[str]:
    """Write an authority's certificate, a certificate that it signed for loopback, and its key."""
    now = dt.datetime.now(dt.UTC)
    own_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])

    def made(name: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(authority)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
        )

    root = made(authority, own_key.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signed = made(subject, key.public_key()).add_extension(
        x509.SubjectAlternativeName(names), critical=False
    )
    pem = serialization.Encoding.PEM
    files = {
        "ca.pem": root.sign(own_key, hashes.SHA256()).public_bytes(pem),
        "cert.pem": signed.sign(own_key, hashes.SHA256()).public_bytes(pem),
        "key.pem": key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [str(folder / name) for name in files]


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@dataclass
class Cluster:
    """A scheduler and its workers, processes of their own."""

    folder: Path
    workers: int = 2
    tls: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """What a client connects to."""
        return f"{'tls' if self.tls else 'tcp'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        """Begin the scheduler and the workers."""
        self.begin_scheduler()
        for number in range(self.workers):
            self.begin_worker(f"worker-{number}")
        return self

    def __exit__(self, *_: object) -> None:
        """End all."""
        for name in list(self.processes):
            self.end(name)

    def begin_scheduler(self) -> None:
        """Begin the scheduler, at the same address each time."""
        words = ["scheduler", "--host", self.address, "--no-dashboard", "--no-show"]
        self._begin("scheduler", [*words, "--dashboard-address", ":0"])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            assert time.monotonic() < deadline, self.log("scheduler")
            time.sleep(0.05)

    def begin_worker(self, name: str, *more: str) -> None:
        """Begin a worker of one thread, without anybody who would begin it anew."""
        words = ["worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        words += ["--host", "127.0.0.1", "--local-directory", str(self.folder / name)]
        words += ["--memory-limit", "0", "--death-timeout", "60", *more]
        self._begin(name, words)

    def kill(self, name: str) -> None:
        """Kill a process as the kernel would that wants its memory."""
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes.pop(name).wait()

    def end(self, name: str) -> None:
        """End a process as its user would."""
        process = self.processes.pop(name)
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log(self, name: str) -> str:
        """Read what a process has said."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    def _begin(self, name: str, words: list[str]) -> None:
        if self.tls:
            for option, file in zip(
                ("--tls-ca-file", "--tls-cert", "--tls-key"), self.tls, strict=True
            ):
                words += [option, file]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "dask", *words],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )
