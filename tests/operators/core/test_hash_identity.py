"""The name of the hash function is that of its values: it does not change with the version of Polars alone."""

from __future__ import annotations

import subprocess
import sys

import polars as pl
import pytest

from operators.core.hash_identity import NAMED_BY_VERSION, hash_digest, hash_name
from operators.core.run import hashing, key_hash


def test_another_function_with_equal_hashes_has_the_same_name() -> None:
    assert hash_name(key_hash) == hash_name(lambda frame, keys: key_hash(frame, keys))


@pytest.mark.skipif(pl.__version__ != "2.1.0", reason="the name is that of another version")
def test_state_that_was_named_by_the_version_keeps_its_name() -> None:
    assert hash_name(key_hash) == "polars 2.1.0" == NAMED_BY_VERSION[hash_digest(key_hash)]


@pytest.mark.parametrize(
    "dtype",
    [
        pl.Int64,
        pl.Int8,
        pl.Float64,
        pl.String,
        pl.Binary,
        pl.Boolean,
        pl.Date,
        pl.Datetime,
        pl.Decimal,
        pl.List,
        pl.Struct,
    ],
)
def test_a_function_that_differs_for_one_type_has_another_name(dtype: pl.DataType) -> None:
    def other(frame: pl.DataFrame, keys: list[str]) -> pl.Series:
        hashes = key_hash(frame, keys)
        return hashes ^ 1 if frame[keys[0]].dtype == dtype else hashes

    assert hash_name(other) != hash_name(key_hash)


def test_a_function_that_differs_for_several_columns_has_another_name() -> None:
    assert hash_name(lambda frame, keys: key_hash(frame, keys[:1])) != hash_name(key_hash)


@pytest.mark.parametrize("length", [3, 17, 300])
def test_a_function_that_differs_for_texts_of_some_lengths_has_another_name(length: int) -> None:
    def other(frame: pl.DataFrame, keys: list[str]) -> pl.Series:
        hashes = key_hash(frame, keys)
        if frame[keys[0]].dtype != pl.String:
            return hashes
        return pl.select(
            pl.when(frame[keys[0]].str.len_bytes() >= length).then(hashes ^ 1).otherwise(hashes)
        ).to_series()

    assert hash_name(other) != hash_name(key_hash)


def test_another_process_computes_the_same_name() -> None:
    said = "from operators.core.run import hashing; print(hashing())"
    ran = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == hashing()
