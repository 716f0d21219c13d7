"""Redis obeys the laws of all stores of state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.redis_state import redis_under_test
from tests.support.state_laws import LAWS, StateUnderTest

pytestmark = pytest.mark.services


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(redis_url: str, unique: str, tmp_path: Path, law: Callable[[StateUnderTest], None]) -> None:
    law(redis_under_test(redis_url, unique, tmp_path))
