"""A page that is read from top to bottom: text, tables and drawings, without any script."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from schedlab._files import write_text
from schedlab.report import page

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["write"]

STYLES = ("palette.css", "page.css", "tables.css")

# Every string is ours or escaped, and nothing may be loaded or run.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def write(
    path: str | Path, template: str, *, verb: str, name: str, figures: Any, **words: Any
) -> None:
    """Write a page of a template that extends ``sheet.html.j2``.

    ``verb`` is what made it, ``name`` its heading, and ``figures`` what programs read in it.
    """
    text = (
        page.environment()
        .get_template(template)
        .render(
            verb=verb,
            name=name,
            policy=POLICY,
            style=Markup("\n".join(page.asset(each) for each in STYLES)),  # noqa: S704 - our own
            version=metadata.version("schedlab"),
            figures=page.json_text(figures),
            **words,
        )
    )
    write_text(path, text)
