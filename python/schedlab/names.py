"""Names that people mistype: what is near, and idle governors by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab import _schedlab
from schedlab._schedlab import GovernorError

if TYPE_CHECKING:
    from collections.abc import Iterable

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
