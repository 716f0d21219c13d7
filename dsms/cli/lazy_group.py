"""A group of commands whose modules are imported when their command runs. The help and Tab import none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Command(NamedTuple):
    """Where a command is, as `module:name`, and its line in the help."""

    place: str
    summary: str

    def load(self, name: str) -> Any:
        """The command under this name; imports its module."""
        module, attribute = self.place.split(":")
        found: Callable[..., None] | typer.Typer = getattr(import_module(module), attribute)
        loaded = typer.main.get_group(found) if isinstance(found, typer.Typer) else _command(found)
        loaded.name = name
        return loaded


def _command(function: Callable[..., None]) -> Any:
    alone = typer.Typer(add_completion=False)
    alone.command()(function)
    return typer.main.get_command(alone)


def lazy_group(commands: Mapping[str, Command]) -> type[TyperGroup]:
    """The class of a group with these commands, in this order. The group gives a command with its summary only until
    the command is to run."""

    class LazyGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands = {name: TyperCommand(name, help=command.summary) for name, command in commands.items()}

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, command, rest = super().resolve_command(ctx, args)
            return (name, command, rest) if name is None else (name, commands[name].load(name), rest)

    return LazyGroup
