"""Names that people mistype: what is near, and idle governors by name."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from schedlab import _schedlab
from schedlab._schedlab import GovernorError, KernelError, MachineError, WorkloadError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# More guesses than these are none.
NEAR_MOST = 2


def near(name: str, known: Iterable[str]) -> str:
    """Suggest what was meant by an unknown name; empty if nothing is near.

    >>> near("sysbench-cpus", ["sysbench-cpu", "ebizzy"])
    '; did you mean sysbench-cpu?'
    >>> near("pixl6", ["pixel6-gs101", "generic"])
    '; did you mean pixel6-gs101?'
    """
    import difflib  # noqa: PLC0415 - names are right for the most part

    known = list(known)
    found = difflib.get_close_matches(name, known, n=NEAR_MOST)
    if not found:
        # People leave out what follows the first word of a long name.
        first = {each: each.partition("-")[0] for each in known}
        words = difflib.get_close_matches(name, dict.fromkeys(first.values()), n=NEAR_MOST)
        found = [each for each in known if first[each] in words][:NEAR_MOST]
    return f"; did you mean {' or '.join(found)}?" if found else ""


# How the compiled half refuses a word of a file that it does not know: what stands there in
# backquotes, and then the words that it knows, in backquotes or between commas.
_UNKNOWN = re.compile(r"`([^`]*)`(?:, expected (?:one of )?|; there are )(.*)", re.DOTALL)
_BETWEEN = re.compile(r"`?(?:, (?:and for short )?| or | and )`?")


@contextlib.contextmanager
def guessing() -> Iterator[None]:
    """Add what is near to errors of the compiled half that list the words a file may have.

    >>> with guessing():
    ...     raise KernelError("a:7: unknown variant `utl`, expected `prop` or `util`")
    Traceback (most recent call last):
    schedlab.KernelError: a:7: unknown variant `utl`, expected `prop` or `util`; did you mean util?
    """
    try:
        yield
    except (KernelError, MachineError, WorkloadError) as error:
        unknown = _UNKNOWN.search(str(error))
        if unknown is None:
            raise
        name, listed = unknown.groups()
        raise type(error)(f"{error}{near(name, _BETWEEN.split(listed.strip('`')))}") from None


def check_governor(name: str) -> None:
    """Check that an idle governor has this name, in full or for short.

    Raises :class:`schedlab.GovernorError` with the names that there are.

    >>> check_governor("teo"), check_governor("menu-6.1")
    (None, None)
    """
    try:
        # The compiled half knows the short names, too; a governor of one state does nothing else.
        _schedlab.Governor(name, [(0, 0, False, False)], 1_000_000, 1024)
    except ValueError as error:
        full = [each for each, _ in _schedlab.governor_names()]
        known = dict.fromkeys([*(each.partition("-")[0] for each in full), *full])
        raise GovernorError(f"{error}{near(name, known)}") from None
