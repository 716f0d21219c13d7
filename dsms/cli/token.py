"""`dsms token`: makes an API token."""

from typing import Annotated

import typer

from dsms.cli.output import note, print_line
from dsms.coordinator.http.access import new_token
from dsms.model.roles import Role


def token(
    name: Annotated[str, typer.Argument(help="Name of the user or program that gets the token.")],
    role: Annotated[Role, typer.Option(help="Role of the token, which says what it permits.")] = "reader",
) -> None:
    """Make an API token.

    The entry for the coordinator's token file is written to standard output, the token itself to standard error.

    Example: dsms token ann --role writer >> tokens.toml
    """
    text, kept = new_token(name, role)
    print_line(f'[[token]]\nname = "{kept.name}"\nrole = "{kept.role}"\nsha256 = "{kept.sha256}"')
    note(f"token (shown only once): {text}")
