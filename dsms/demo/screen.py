"""The output of the demo: lines on standard output, and a spinner while it waits at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

_FIRST, _OTHERS = 16, 14


class Screen:
    """Prints lines, and the rows of a table with columns of fixed width."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)

    def title(self, text: str) -> None:
        """Prints a heading."""
        self._console.print(f"\n{text}", style="bold", markup=False)

    def line(self, text: str = "") -> None:
        """Prints a line."""
        self._console.print(text, markup=False)

    def aside(self, text: str) -> None:
        """Prints a dimmed, indented line."""
        self._console.print(f"  {text}", style="dim", markup=False)

    def row(self, cells: Sequence[str]) -> None:
        """Prints a row of the table.

        >>> Screen().row(["<a,78>1", "+<a,78>1", ""])
          <a,78>1         +<a,78>1
        """
        widths = [_FIRST, *[_OTHERS] * (len(cells) - 1)]
        text = "".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        self._console.print(f"  {text.rstrip()}", markup=False)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Shows a spinner during the block when the output is a terminal."""
        if not self._console.is_terminal:
            yield
            return
        with self._console.status(text):
            yield
