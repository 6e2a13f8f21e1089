"""Kernels: a variant for every mechanism, built in or from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from schedlab._schedlab import Kernel as _Native
from schedlab._schedlab import KernelError
from schedlab.names import guessing, near
from schedlab.ranges import CPUS, check_range


class Kernel:
    """One variant of every mechanism that is modelled, and its constants.

    >>> kernel = Kernel.load("v6.12")
    >>> kernel.settings()["fair"], kernel.settings()["placement.idlest_tie"]
    ('eevdf', 'group-util')
    """

    def __init__(self, native: _Native) -> None:
        """Wrap what the compiled half has loaded; use :meth:`load` and its like instead."""
        self.native = native

    @classmethod
    def load(cls, name_or_path: str | Path) -> Self:
        """Load a built-in kernel by its name, or else a TOML file.

        Raises :class:`schedlab.KernelError`, whose text names file, line and mend, and built-in
        names that are near.
        """
        if isinstance(name_or_path, str):
            if name_or_path in _Native.preset_names():
                return cls(_Native.preset(name_or_path))
            if not Path(name_or_path).exists():
                return cls(cls._unknown(name_or_path))
        path = Path(name_or_path)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise KernelError(f"{path}: not text but something else; give a TOML file") from error
        return cls.parse(text, str(path))

    @staticmethod
    def _unknown(name: str) -> _Native:
        """Raise what the compiled half tells of a name, as it knows which names there are."""
        try:
            return _Native.preset(name)
        except KernelError as error:
            raise KernelError(f"{error}{near(name, _Native.preset_names())}") from None

    @classmethod
    def parse(cls, text: str, name: str = "<text>") -> Self:
        """Load a kernel from TOML text; ``name`` is what errors call it.

        >>> text = Kernel.preset_toml("v6.1").replace("hz = 250", "hz = 1000")
        >>> Kernel.load("v6.1").diff(Kernel.parse(text))
        {'tick.hz': ('250', '1000')}
        """
        with guessing():
            return cls(_Native.parse(text, name))

    @staticmethod
    def names() -> list[str]:
        """List the built-in kernels, oldest first.

        >>> Kernel.names()
        ['v2.6.32', 'v2.6.36', 'v3.9', 'v3.9-power', 'v5.7', 'v5.9', 'v6.1', 'v6.12']
        """
        return _Native.preset_names()

    @staticmethod
    def preset_toml(name: str) -> str:
        """Give the file of a built-in kernel, comments and all."""
        text = _Native.preset_text(name)
        if text is None:
            _Native.preset(name)
        return str(text)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.native.name

    @property
    def description(self) -> str:
        """One line on what it is."""
        return self.native.description

    def settings(self, cpus: int | None = None) -> dict[str, str]:
        """Give every setting by its name in files; times scaled to so many CPUs, if given.

        >>> Kernel.load("v6.12").settings(cpus=8)["fair.eevdf.base_slice_ns"]
        '2800000'
        """
        check_range("cpus", cpus, CPUS, KernelError)
        return dict(self.native.settings(cpus))

    def diff(self, other: Kernel) -> dict[str, tuple[str | None, str | None]]:
        """Give the settings that differ, each with its value here and there.

        >>> Kernel.load("v5.7").diff(Kernel.load("v5.9"))
        {'placement.idlest_tie': ('first', 'group-util')}
        """
        here, there = self.settings(), other.settings()
        keys = list(dict.fromkeys([*here, *there]))
        return {
            key: (here.get(key), there.get(key)) for key in keys if here.get(key) != there.get(key)
        }

    def __eq__(self, other: object) -> bool:
        """Tell whether both are the same in every setting."""
        return isinstance(other, Kernel) and self.native == other.native

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Name the kernel.

        >>> Kernel.load("v6.1")
        <Kernel v6.1>
        """
        return f"<Kernel {self.name}>"
