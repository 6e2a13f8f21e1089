"""Whether a scheduler can be reached, found out before Dask's client tries.

A client that fails takes long to notice and says little. What does not get better by waiting is a
:class:`schedlab.StudyError` here, with the option that is at fault; the rest is an ``OSError``.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from schedlab.study.reading import StudyError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["reach"]

CONNECT_S = 20.0

# A server that refuses a certificate says so at once, after the client believes to be connected.
REFUSAL_S = 1.0


def reach(address: str, tls: Sequence[str]) -> None:
    """Connect to a scheduler, and leave; ``tls`` are authority, certificate and key.

    Raises :class:`schedlab.StudyError` for an address or files that cannot be right, or that do not
    fit the scheduler, and ``OSError`` where nobody answers.
    """
    scheme, host, port = _parts(address)
    context = _context(*tls) if scheme == "tls" else None
    with socket.create_connection((host, port), timeout=CONNECT_S) as connection:
        if context is not None:
            _shake_hands(connection, context, address, tls)


def _parts(address: str) -> tuple[str, str, int]:
    place = urlsplit(address)
    with contextlib.suppress(ValueError):
        if place.scheme in {"tcp", "tls"} and place.hostname and place.port:
            return place.scheme, place.hostname, place.port
    raise StudyError(f"--scheduler {address}: write it as tcp://HOST:8786 or tls://HOST:8786")


def _context(authority: str, certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Dask asks who signed, not for which host.
    context.check_hostname = False
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError:
        raise StudyError(f"--tls-ca {authority}: no certificate in it; give a PEM file") from None
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise StudyError(
                f"--tls-key {key}: not the key of --tls-cert {certificate}; give the one of both"
            ) from None
        if key == certificate:
            raise StudyError(
                f"--tls-cert {certificate}: not a certificate with its key; give PEM files, the "
                "key by --tls-key"
            ) from None
        raise StudyError(
            f"--tls-cert {certificate}, --tls-key {key}: not a certificate and its key; give PEM "
            "files"
        ) from None
    return context


def _shake_hands(
    connection: socket.socket, context: ssl.SSLContext, address: str, tls: Sequence[str]
) -> None:
    authority, certificate, _ = tls
    try:
        secure = context.wrap_socket(connection)
    except ssl.SSLCertVerificationError as error:
        raise StudyError(
            f"{address}: its certificate is not one that --tls-ca {authority} vouches for "
            f"({error.verify_message}); give the authority that signed it"
        ) from None
    except ssl.SSLError as error:
        if error.reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}:
            raise StudyError(f"{address}: speaks no TLS; use tcp:// if you trust it") from None
        raise
    secure.settimeout(REFUSAL_S)
    try:
        secure.recv(1)
    except TimeoutError:
        pass
    except ssl.SSLError:
        raise StudyError(
            f"{address}: refuses --tls-cert {certificate}; give one that its authority has signed"
        ) from None
    finally:
        secure.close()
