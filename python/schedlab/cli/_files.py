"""Files that commands write, refused before the work is done if they cannot be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from schedlab.cli._errors import Refusal

__all__ = ["OUT_FILE"]


class _OutFile(click.Path):
    """A file whose folder is there."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False, writable=True)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            raise Refusal(f"{path}: there is no folder {path.parent}; make it, or write elsewhere")
        return path


OUT_FILE = _OutFile()
"""The type of options that name a file to be written."""
