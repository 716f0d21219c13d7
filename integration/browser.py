"""Chromium without a window, for tests of the console."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Error, expect, sync_playwright

#: The names of executables to look for, unless DSMS_CHROMIUM gives a path.
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

#: How long an expectation may take on a busy machine.
_PATIENCE_MS = 60_000


def executable() -> str | None:
    """The path of a browser installed on this machine, or None. Playwright's own browser is not considered."""
    return os.environ.get("DSMS_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; the test is skipped if no browser is installed."""
    found = executable()
    expect.set_options(timeout=_PATIENCE_MS)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except Error as error:
            if found is not None:
                raise
            pytest.skip(f"no Chromium: install it, or name it in DSMS_CHROMIUM ({error.message.splitlines()[0]})")
        yield browser
        browser.close()
