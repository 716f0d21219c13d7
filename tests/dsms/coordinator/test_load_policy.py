"""The files and databases from which a coordinator may load tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsms.coordinator.tables.load_policy import LoadPolicy
from dsms.model.statements import LoadDatabase, LoadFile, Name
from operators.core.errors import UserError


def test_a_coordinator_reads_only_what_it_was_started_for(tmp_path: Path) -> None:
    inside, outside = (LoadFile(Name("t"), path, (), "") for path in ("a/b.csv", "../b.csv"))
    database = LoadDatabase(Name("t"), "sqlite://", "SELECT 1")
    for load in (inside, database):
        with pytest.raises(UserError, match="may not"):
            LoadPolicy().checked(load)
    allowed = LoadPolicy(tmp_path, databases=True)
    assert allowed.checked(database) == database
    assert allowed.checked(inside) == LoadFile(Name("t"), str(tmp_path.resolve() / "a/b.csv"), (), "")
    for load in (outside, LoadFile(Name("t"), "/etc/hosts", (), "")):
        with pytest.raises(UserError, match="outside the directory"):
            allowed.checked(load)


def test_the_password_of_a_database_is_a_reference() -> None:
    allowed = LoadPolicy(databases=True)
    with pytest.raises(UserError, match="must not contain a password") as refused:
        allowed.checked(LoadDatabase(Name("t"), "postgresql://ann:pw4711@host/x", "SELECT 1"))
    assert "pw4711" not in str(refused.value)
    load = LoadDatabase(Name("t"), "postgresql://ann:${secret:db}@host/x", "SELECT 1")
    assert allowed.checked(load) == load
