"""Plan files are read case by case, and written as they were read."""

from __future__ import annotations

import pytest

from tests.support.plan_files import GOLDEN, Case, parse, plan_files

FOLDERS = ("binding", "rules", "explain")
TWO = """-- title: a filter
-- after: merge_filters, merge_projects
SELECT a
FROM T WHERE a > 0;

-- Filter a > 0
--   T
--
-- rules: none

-- title: a new case
SELECT a FROM T;
"""


def test_each_case_has_title_select_and_plan() -> None:
    first, second = parse("two.sql", TWO).cases.values()
    assert first == Case(
        "a filter",
        "SELECT a\nFROM T WHERE a > 0",
        ("merge_filters", "merge_projects"),
        "Filter a > 0\n  T\n\nrules: none",
    )
    assert second == Case("a new case", "SELECT a FROM T")


def test_a_plan_is_written_below_its_select() -> None:
    file = parse("two.sql", TWO)
    assert file.text(lambda case: case.plan or "T") == f"{TWO}\n-- T\n"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_file_in_tests_golden_is_written_as_it_was_read(folder: str) -> None:
    files = plan_files(folder)
    assert files
    for file in files.values():
        assert file.text(lambda case: case.plan) == (GOLDEN / file.name).read_text()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM T;\n",
        "-- title: no semicolon\nSELECT a FROM T\n\n-- T\n",
        "-- title: an unknown word\n-- before: merge_filters\nSELECT a FROM T;\n",
        "-- title: text after the plan\nSELECT a FROM T;\n\n-- T\n\nSELECT b FROM T\n",
        "-- title: twice\nSELECT a FROM T;\n\n-- title: twice\nSELECT b FROM T;\n",
    ],
)
def test_a_file_that_is_not_well_formed_is_refused(text: str) -> None:
    with pytest.raises(AssertionError, match=r"wrong\.sql"):
        parse("wrong.sql", text)
