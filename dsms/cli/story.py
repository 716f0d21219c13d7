"""`dsms story`: shows the last events of a fragment."""

from typing import Annotated

import typer

from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, connect
from dsms.cli.output import note, print_json, print_line


def story(
    fragment: Annotated[str, typer.Argument(help='Name of the fragment, such as "0".')],
    last: Annotated[int, typer.Option("--last", min=1, max=10_000, help="Show at most the last N events.")] = 300,
    json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Show the last events of a fragment with what followed from them, oldest first.

    Example: dsms story 0 --last 20
    """
    with connect(coordinator, data_dir) as api:
        events = api.story(fragment, last)
    for event in events:
        if json:
            print_json(event)
        else:
            print_line(f"{event['at']}  {event['executor']}  {event['text']}")
    if not events:
        note(f'no events of fragment "{fragment}" are known')
