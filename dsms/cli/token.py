"""`dsms token`: makes an API token."""

from typing import Annotated

import typer

from dsms.cli.output import note, print_line
from dsms.coordinator.http.access import Access
from dsms.model.roles import Role
from dsms.model.tokens import entry, new_token

_PATTERN = "a name, or a prefix and *; may be given several times"


def token(  # noqa: PLR0913 a parameter an option
    name: Annotated[str, typer.Argument(help="Name of the user or program that gets the token.")],
    role: Annotated[Role, typer.Option(help="Role of the token, which says what it permits.")] = "reader",
    *,
    read: Annotated[list[str] | None, typer.Option(help=f"Objects that it may read: {_PATTERN}.")] = None,
    write: Annotated[
        list[str] | None, typer.Option(help=f"Objects that it may create, change, drop and read: {_PATTERN}.")
    ] = None,
    read_topics: Annotated[
        list[str] | None, typer.Option(help=f"Topics over which it may register sources: {_PATTERN}.")
    ] = None,
    write_topics: Annotated[
        list[str] | None, typer.Option(help=f"Topics that it may write and read: {_PATTERN}.")
    ] = None,
    calls_per_second: Annotated[float | None, typer.Option(min=0.01, help="Calls per second that it may make.")] = None,
    queries: Annotated[int | None, typer.Option(min=0, help="Queries that it may have.")] = None,
    streams: Annotated[int | None, typer.Option(min=0, help="Results that it may follow at the same time.")] = None,
) -> None:
    """Make an API token.

    The entry for the coordinator's token file is written to standard output, the token itself to standard error. If any
    pattern of objects or topics is given, the token permits only what the patterns match.

    Example: dsms token ann --role writer --read 'orders*' --write 'ann_*' --write-topics 'dsms.ann_*' >> tokens.toml
    """
    patterns = {"read": read, "write": write, "read_topics": read_topics, "write_topics": write_topics}
    limits = {"calls_per_second": calls_per_second, "queries": queries, "streams": streams}
    given = {field: tuple(names) for field, names in patterns.items() if names}
    text, kept = new_token(name, role, **given, **limits)
    Access((kept,))  # refuses wrong patterns
    print_line(entry(kept))
    note(f"token (shown only once): {text}")
