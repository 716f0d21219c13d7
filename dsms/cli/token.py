"""`dsms token`: a new API token."""

from typing import Annotated

import typer

from dsms.cli.output import note, print_line
from dsms.coordinator.http.access import Role, new_token


def token(
    name: Annotated[str, typer.Argument(help="Whose token it is.")],
    role: Annotated[Role, typer.Option(help="What it allows.")] = "reader",
) -> None:
    """Make an API token: what the coordinator's file of tokens needs goes to the output, the secret to the terminal.

    Example: dsms token ann --role writer >> tokens.toml
    """
    text, kept = new_token(name, role)
    print_line(f'[[token]]\nname = "{kept.name}"\nrole = "{kept.role}"\nsha256 = "{kept.sha256}"')
    note(f"the token, told this once: {text}")
