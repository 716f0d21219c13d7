"""Sinks write only below the allowed prefixes, however a target is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsms.coordinator.sinks.allowed_targets import AllowedTargets
from operators.core.errors import ConfigError, UserError

PREFIXES = (
    "/lake, delta:s3://bucket/hot, iceberg://prod, postgresql+psycopg://db:5432/shop, mysql+pymysql://ann@db/shop, "
    "postgresql+psycopg://ann:${secret:p}@tls/shop?sslmode=require"
)


@pytest.mark.parametrize(
    "target",
    [
        "/lake",
        "/lake/a/b c",
        "iceberg:/lake/a",
        "delta:/lake/a",
        "sqlite:////lake/a.db",
        "delta:s3://bucket/hot",
        "delta:s3://bucket/hot/a/",
        "iceberg://prod",
        "postgresql+psycopg://db:5432/shop",
        "postgresql+psycopg://ann:${secret:p}@db:5432/shop",
        "sqlite+pysqlite:////lake/a.db",
        "postgresql+psycopg://${secret:user}:${secret:p}@db:5432/shop",
        "mysql+pymysql://ann:${secret:p}@db/shop",
        "mysql+pymysql://ann@db/shop",
        "postgresql+psycopg://ann:${secret:p}@tls/shop?sslmode=require",
    ],
)
def test_targets_below_a_prefix_are_allowed(target: str) -> None:
    AllowedTargets.of(PREFIXES).check(target)


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "",
        "lake/a",
        "./lake",
        "~/lake",
        "/lakes",
        "/LAKE/a",
        "/lake/../etc",
        "/lake/a/../../etc",
        "/lake\n/etc",
        "/lake/\x00",
        "file:///lake/a",
        "FILE:///lake/a",
        "delta:file:///lake/a",
        "delta:FILE:///lake/../etc",
        "/lake/${secret:path}",
        "${secret:path}",
        "sqlite:///lake/a.db",
        "sqlite:////etc/a.db",
        "sqlite:////lake/../etc/a.db",
        "sqlite:////lake/a.db?mode=ro",
        "sqlite://",
        "sqlite:////lake/%2e%2e/etc/a.db",
        "sqlite+pysqlite:////lake/..%2fetc/a.db",
        "/lake/%2e%2e/etc",
        "iceberg:/lake/%2e%2e/etc",
        "delta:/lake/%2e%2e/etc",
        "iceberg:/lake/a b",
        "iceberg:/lake/a#b",
        "iceberg:/lake/a+b",
        "postgresql+psycopg:////lake/shop",
        "mysql+pymysql:////lake/shop",
        "iceberg:lake",
        "iceberg://other",
        "iceberg://prod@other",
        "iceberg://other@prod",
        "iceberg://prod/other",
        "delta:s3://evil?@bucket/hot",
        "delta:s3://evil#@bucket/hot",
        "delta:s3://evil@bucket/hot",
        "delta:s3://evil:${secret:p}@bucket/hot",
        "postgresql+psycopg://ann?host=evil@db:5432/shop",
        "postgresql+psycopg://[evil]@db:5432/shop",
        "postgresql+psycopg://evil#@db:5432/shop",
        "iceberg:///lake/a",
        "delta:s3://bucket/hotter",
        "delta:s3://bucket/hot/../cold",
        "delta:s3://bucket/hot/%2e%2e/cold",
        "delta:s3://bucket/hot//cold",
        "delta:s3://bucket\\hot",
        "delta:s3://BUCKET/hot",
        "delta:S3://bucket/hot",
        "delta:s3a://bucket/hot",
        "s3://bucket/hot",
        "delta:delta:s3://bucket/hot",
        "postgresql+psycopg://db/shop",
        "postgresql+psycopg://db:5432/shops",
        "postgresql+psycopg://db:5432@evil/shop",
        "postgresql+psycopg://db:${secret:p}@evil:5432/shop",
        "postgresql+psycopg://a@evil@db:5432/shop",
        "postgresql+psycopg://db:5432/shop@evil/x",
        "postgresql+psycopg://db:5432/shop?host=evil",
        "postgresql+psycopg://db:5432/shop#@evil",
        "postgresql+psycopg://db:5432/shop host=evil",
        "postgresql+psycopg://db:5432,evil/shop",
        "postgresql+psycopg:///shop",
        "postgresql+psycopg://ann:${secret:p}@tls/shop",
        "postgresql+psycopg2://db:5432/shop",
        "mysql+pymysql://eve@db/shop",
        "mysql+pymysql://db/shop",
    ],
)
def test_other_targets_are_refused(target: str) -> None:
    with pytest.raises(UserError, match="is not allowed|must not contain a password"):
        AllowedTargets.of(PREFIXES).check(target)


@pytest.mark.parametrize(
    "target",
    [
        "postgresql+psycopg:///shop",
        "postgresql+psycopg:////run/shop",
        "postgresql+psycopg://ann%40corp@db/shop",
        "mssql+pyodbc://db/shop;a",
        "postgresql+psycopg:///shop?host=/run/pg",
    ],
)
def test_urls_that_are_read_differently_allow_only_themselves(target: str) -> None:
    allowed = AllowedTargets.of(f"/lake,{target}")
    allowed.check(target)
    with pytest.raises(UserError, match="is not allowed"):
        allowed.check(f"{target}/a")


def test_links_are_followed(tmp_path: Path) -> None:
    lake, outside = tmp_path / "lake", tmp_path / "outside"
    lake.mkdir()
    outside.mkdir()
    (lake / "out").symlink_to(outside)
    (tmp_path / "in").symlink_to(lake)
    allowed = AllowedTargets.of(str(lake))
    allowed.check(f"{tmp_path / 'in'}/a")
    for target in (f"{lake}/out/a", f"delta:{lake}/out", f"sqlite:///{lake}/out/a.db"):
        with pytest.raises(UserError, match="is not allowed"):
            allowed.check(target)


@pytest.mark.parametrize("target", ["postgresql+psycopg://ann:s3cret@db:5432/shop", "/lake/a?password=s3cret"])
def test_passwords_are_refused_and_not_shown(target: str) -> None:
    with pytest.raises(UserError, match=r"must not contain a password, .*\$\{secret:NAME\}") as refused:
        AllowedTargets.of(PREFIXES).check(target)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("prefixes", ["lake", "file:///lake", "/lake/../etc", "postgresql://ann:s3cret@db"])
def test_wrong_prefixes_are_errors_of_the_setting(prefixes: str) -> None:
    with pytest.raises(ConfigError) as refused:
        AllowedTargets.of(prefixes)
    assert "s3cret" not in str(refused.value)
