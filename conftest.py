"""What all tests share, the documentation's examples among them."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pytest_configure() -> None:
    """Let commands that tests start be interrupted.

    What a shell without job control starts in the background ignores that, and so would they.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the store of all processes of a session: what one simulated, the others take from it."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "store"


@pytest.fixture(scope="session", autouse=True)
def default_store(shared_store: Path) -> Iterator[None]:
    """Keep runs there instead of in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCHEDLAB_STORE", str(shared_store))
        yield
