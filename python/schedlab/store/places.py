"""Where a store's files lie: a folder, or any address that fsspec knows.

A file appears under its name once it is whole, and never changes afterwards.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["FolderPlace", "Place", "RemotePlace", "place_of"]

T = TypeVar("T")

PARTIAL = ".part"

# Stores that keep an object only once all of it has come.
WHOLE_OBJECTS = frozenset({"abfs", "az", "gcs", "gs", "memory", "s3", "s3a"})

TRIES = 6
FIRST_PAUSE_S = 0.25
# Trying again does not help against these.
FINAL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG})


class Place(Protocol):
    """Named files that are written once."""

    address: str
    """What messages call it."""

    def names(self, folder: str) -> list[str]:
        """List the files of a folder; none where there is no such folder."""

    def read(self, folder: str, names: Sequence[str]) -> dict[str, bytes]:
        """Read files, several at once where that is faster; one that is gone is left out."""

    def write(self, folder: str, name: str, content: bytes) -> None:
        """Write a file for good: it survives a crash from here on."""

    def remove(self, folder: str, names: Sequence[str]) -> None:
        """Remove files, if they are there."""


def place_of(address: str | Path) -> Place:
    """Give the place of an address.

    >>> place_of("/store/x").address, place_of("file:///store/x").address
    ('/store/x', '/store/x')

    Raises :class:`schedlab.store.StoreError` for an address that cannot be used.
    """
    text = str(address)
    if isinstance(address, Path) or "://" not in text:
        return FolderPlace(Path(text))
    if text.startswith("file://"):
        return FolderPlace(Path(text.removeprefix("file://")))
    return RemotePlace(text)


class FolderPlace:
    """A folder of this machine, or one that it shares."""

    def __init__(self, folder: Path) -> None:
        """Use a folder; it is created when the first file is written.

        Raises :class:`schedlab.store.StoreError` where something else stands.
        """
        from schedlab.store import StoreError  # noqa: PLC0415 - it imports this module

        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{folder}: a file, where a store is a folder; name another")
        self.folder = folder
        self.address = str(folder)

    def names(self, folder: str) -> list[str]:
        """List the files of a folder."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(
                entry.name
                for entry in os.scandir(self.folder / folder)
                if not entry.name.endswith(PARTIAL)
            )
        return []

    def path(self, folder: str, name: str) -> Path:
        """Give a file's path."""
        return self.folder / folder / name

    def read(self, folder: str, names: Sequence[str]) -> dict[str, bytes]:
        """Read files."""
        found = {}
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found[name] = self.path(folder, name).read_bytes()
        return found

    def write(self, folder: str, name: str, content: bytes) -> None:
        """Write a file under another name, and rename it once it is on disk.

        Raises ``OSError`` with the file's name.
        """
        path = self.path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{name}.{secrets.token_hex(4)}{PARTIAL}")
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException as error:
            with contextlib.suppress(OSError):
                partial.unlink()
            if isinstance(error, OSError) and error.filename is None:
                raise OSError(error.errno, error.strerror, str(path)) from None
            raise
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def remove(self, folder: str, names: Sequence[str]) -> None:
        """Remove files."""
        for name in names:
            self.path(folder, name).unlink(missing_ok=True)


class RemotePlace:
    """An address that fsspec knows: ``s3://``, ``gs://``, ``sftp://`` and others."""

    def __init__(self, address: str) -> None:
        """Connect; how is told by the environment, as each service's own tools are told."""
        from schedlab.extras import wanted  # noqa: PLC0415 - few stores are remote
        from schedlab.store import StoreError  # noqa: PLC0415 - it imports this module

        with wanted("a store at an address"):
            import fsspec  # noqa: PLC0415 - an extra
        # Of connections that end it would tell at length, though they are tried again.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        protocol = address.partition("://")[0]
        self.address = address.rstrip("/")
        self._whole = protocol in WHOLE_OBJECTS
        try:
            # Another client may have written since: nothing of a listing may be remembered.
            options: dict[str, Any] = {"use_listings_cache": False}
            self._system, self._root = fsspec.core.url_to_fs(self.address, **options)
        except ImportError as error:
            raise StoreError(
                f"{self.address}: {error}; for S3, `pip install schedlab[sweep]` brings it"
            ) from None
        except ValueError as error:
            raise StoreError(
                f"{self.address}: {error}; name a folder, or an address such as s3://bucket/sweeps"
            ) from None

    def names(self, folder: str) -> list[str]:
        """List the files of a folder."""

        def listed() -> list[str]:
            try:
                found = self._system.ls(f"{self._root}/{folder}", detail=False, refresh=True)
            except FileNotFoundError:
                return []
            return sorted(Path(each).name for each in found if not each.endswith(PARTIAL))

        return self._patiently(listed)

    def read(self, folder: str, names: Sequence[str]) -> dict[str, bytes]:
        """Read files, as many at once as the service allows."""
        paths = {f"{self._root}/{folder}/{name}": name for name in names}
        if not paths:
            return {}

        def fetched() -> dict[str, bytes]:
            found = self._system.cat(list(paths), on_error="return")
            if isinstance(found, bytes):
                found = {next(iter(paths)): found}
            read = {}
            for path, content in found.items():
                if isinstance(content, FileNotFoundError):
                    continue
                if isinstance(content, BaseException):
                    raise content
                read[paths[path]] = content
            return read

        return self._patiently(fetched)

    def write(self, folder: str, name: str, content: bytes) -> None:
        """Write a file; a service that shows parts of one gets it under another name first."""
        path = f"{self._root}/{folder}/{name}"

        def put() -> None:
            if self._whole:
                self._system.pipe_file(path, content)
                return
            self._system.makedirs(f"{self._root}/{folder}", exist_ok=True)
            partial = f"{path}.{secrets.token_hex(4)}{PARTIAL}"
            self._system.pipe_file(partial, content)
            self._system.mv(partial, path)

        self._patiently(put)

    def remove(self, folder: str, names: Sequence[str]) -> None:
        """Remove files."""
        for name in names:

            def removed(path: str = f"{self._root}/{folder}/{name}") -> None:
                self._system.rm_file(path)

            with contextlib.suppress(FileNotFoundError):
                self._patiently(removed)

    def _patiently(self, act: Callable[[], T]) -> T:
        """Try again, with longer and longer pauses, what a service refuses for the moment."""
        from schedlab.store import StoreError  # noqa: PLC0415 - as above

        pause_s = FIRST_PAUSE_S
        for left in reversed(range(TRIES)):
            try:
                return act()
            except FileNotFoundError:
                raise
            except Exception as error:  # noqa: BLE001 - as said below
                # A client's errors have no common type; that it cannot be helped is told by few.
                if not left or getattr(error, "errno", None) in FINAL:
                    words = str(error).splitlines()[0] if str(error) else type(error).__name__
                    raise StoreError(
                        f"{self.address}: {words}; check the address, the network, and credentials "
                        "in the environment"
                    ) from None
            time.sleep(pause_s)
            pause_s *= 2
        raise AssertionError
