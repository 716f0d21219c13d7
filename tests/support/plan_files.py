"""Reads plan files: SQL files in tests/golden with cases, each of them a SELECT and the plan that is expected for it.

    -- title: a condition above one on Now
    -- after: filter_through_project
    SELECT id FROM (SELECT * FROM T WHERE TS <= Now) AS p WHERE a > 0;

    -- Project id  [key: id]
    --   Filter a > 0  [key: id]
    --   …

The plan is in the comments below the SELECT; `--update-golden` writes it. `after` is only for cases of rewrite rules:
it names the rules that are applied before. What all cases read is declared in `declarations.sql` of the same folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"
_DECLARATIONS = "declarations.sql"
_TITLE = re.compile(r"^-- title: ", re.MULTILINE)
_CASE = re.compile(
    r"(?P<title>.+)\n"
    r"(?:-- after: (?P<after>.+)\n)?"
    r"(?P<select>(?!--)(?:.*\n)*?.*);\n"
    r"(?P<plan>\n*(?:--.*\n)*)\n*"
)


@dataclass(frozen=True)
class Case:
    """A SELECT without its semicolon, and the plan that the file has for it: "" for a new case."""

    title: str
    select: str
    after: tuple[str, ...] = ()
    plan: str = ""

    def text(self, plan: str) -> str:
        """The case in a file, with this plan."""
        after = f"-- after: {', '.join(self.after)}\n" if self.after else ""
        commented = "".join(f"{f'-- {line}'.rstrip()}\n" for line in plan.splitlines())
        return f"-- title: {self.title}\n{after}{self.select};\n\n{commented}"


@dataclass(frozen=True)
class PlanFile:
    """The cases of a file by their titles, in order. `name` is the path of the file in tests/golden."""

    name: str
    cases: Mapping[str, Case]

    def text(self, plan: Callable[[Case], str]) -> str:
        """The file with the plan of each case."""
        return "\n".join(case.text(plan(case)) for case in self.cases.values())


def plan_files(folder: str) -> dict[str, PlanFile]:
    """The plan files in a folder of tests/golden, by their names without `.sql`."""
    paths = sorted(path for path in (GOLDEN / folder).glob("*.sql") if path.name != _DECLARATIONS)
    return {path.stem: parse(f"{folder}/{path.name}", path.read_text()) for path in paths}


def declarations(folder: str) -> str:
    """The statements to run before each case of the folder."""
    return (GOLDEN / folder / _DECLARATIONS).read_text()


def parse(name: str, text: str) -> PlanFile:
    """The cases of a file with this text."""
    before, *parts = _TITLE.split(text if text.endswith("\n") else f"{text}\n")
    assert not before, f"{name} begins with {before!r}; expected -- title: …"
    cases = [_case(name, part) for part in parts]
    assert len({case.title for case in cases}) == len(cases), f"{name} has a title twice"
    return PlanFile(name, {case.title: case for case in cases})


def _case(name: str, text: str) -> Case:
    match = _CASE.fullmatch(text)
    assert match, f"{name}: expected a title, a SELECT with a semicolon, and comments with its plan in {text!r}"
    after = tuple(rule.strip() for rule in (match["after"] or "").split(",") if rule.strip())
    plan = "\n".join(line.removeprefix("--").removeprefix(" ") for line in match["plan"].strip().splitlines())
    return Case(match["title"], match["select"], after, plan)
