"""Packages that only some verbs need: ``pip install schedlab[sweep]`` brings them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from schedlab.study.reading import StudyError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["wanted"]


@contextlib.contextmanager
def wanted(what: str) -> Iterator[None]:
    """Turn the lack of a package into a message that says what to install.

    >>> with wanted("a picture"):  # doctest: +ELLIPSIS
    ...     import no_such_package
    Traceback (most recent call last):
        ...
    schedlab.study.reading.StudyError: a picture needs no_such_package; install it by `pip ...
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise StudyError(
            f"{what} needs {error.name}; install it by `pip install schedlab[sweep]`"
        ) from None
