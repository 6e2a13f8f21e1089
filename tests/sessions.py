"""Documents that show sessions on a terminal, which print what is shown.

``SCHEDLAB_UPDATE_DOCS=1`` writes the output anew.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

from click.testing import CliRunner
from schedlab.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

SESSION = re.compile(r"```console\n\$ ([^\n]*)\n(.*?)```", re.DOTALL)


def printed_by(command: str, files: Mapping[str, str] | None = None) -> str:
    """Run ``schedlab`` with the words of a command, of which some stand for files."""
    words = [(files or {}).get(word, word) for word in shlex.split(command)]
    assert words[0] == "schedlab", command
    result = CliRunner().invoke(main, words[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def check(document: Path, output_of: Callable[[str], str] = printed_by) -> None:
    """Hold every session of a document against what its command prints, in their order."""
    text = document.read_text(encoding="utf-8")
    true = SESSION.sub(lambda found: f"```console\n$ {found[1]}\n{output_of(found[1])}```", text)
    if os.environ.get("SCHEDLAB_UPDATE_DOCS"):
        document.write_text(true, encoding="utf-8")
    assert document.read_text(encoding="utf-8") == true
