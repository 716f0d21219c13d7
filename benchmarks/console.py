"""How fast the console shows 1 000 queries, and screenshots of its pages: `python -m benchmarks.console`.

Headless Chromium loads the page of queries from made-up answers: 1 000 queries whose numbers change with every answer.
The benchmark measures the time to the first paint and to the complete table, and the longest time between two frames
while the table is refreshed for ten seconds. With `--pictures DIRECTORY --url ADDRESS` it takes screenshots of the
pages of a running coordinator instead, for the documents. Writes `benchmarks/out/console.json`.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Page, Route, sync_playwright

from benchmarks.report import Result, write_report
from dsms.coordinator.console.assets import START, assets
from integration.browser import executable

OUT = Path(__file__).parent / "out" / "console.json"
QUERIES, TURNS = 1000, 5
#: The rows of the table at first.
SHOWN = 200
#: JavaScript for the page: the longest time in milliseconds between two frames during the given number of seconds.
_FRAMES = """seconds => new Promise(done => {
    let last = performance.now(), longest = 0;
    const end = last + 1000 * seconds;
    const frame = now => {
        longest = Math.max(longest, now - last);
        last = now;
        now < end ? requestAnimationFrame(frame) : done(longest);
    };
    requestAnimationFrame(frame);
})"""
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
PAGES = {"queries": "", **{name: name for name in ("plan", "sources", "resources", "executors", "sql")}}
#: Selectors of elements that are clicked before the screenshot of a page, in order, if they exist.
OPENED = {
    "sources": ["button[aria-label^='Dead letters']:not(:text-is('0'))", "button[aria-label^='Replay']"],
    "query": ["summary:text-is('Quality over time')"],
}
#: The heights of screenshots, in pixels.
HEIGHTS = {"sources": 900, "resources": 900, "query": 1200}


class MadeUp:
    """Answers of a coordinator with 1 000 queries."""

    def __init__(self) -> None:
        self._turns = itertools.count()

    def serve(self, route: Route) -> None:
        """Answers a request for a file of the console, or for data."""
        path = route.request.url.removeprefix("http://coordinator").partition("?")[0]
        if path.startswith("/console/"):
            asset = assets()[path.removeprefix("/console/") or START]
            route.fulfill(body=asset.content, content_type=asset.media_type)
        else:
            route.fulfill(json=self._data(path, next(self._turns)))

    def _data(self, path: str, turn: int) -> Any:
        names = [f"query_{number:04}" for number in range(QUERIES)]
        if path == "/v1/status":
            return {"executors": {}, "alarms": [], "lag": {name: at * turn % 97 for at, name in enumerate(names)}}
        if path == "/v1/control/queries":
            return [
                {"id": name, "load": at * turn % 13 / 100, "state_bytes": at * 1000} for at, name in enumerate(names)
            ]
        progress = {"records_per_second": turn, "percent": 100, "catching_up": False}
        made = {"kind": "view", "state": "running", "frontier": turn, "progress": progress}
        return [{"name": name, "sql": f"CREATE VIEW {name} AS SELECT a, COUNT(*) FROM S", **made} for name in names]


def measured(page: Page) -> tuple[float, float, float]:
    """The times to the first paint and to the complete table, and the longest time between two frames, in
    milliseconds."""
    page.goto("http://coordinator/console/")
    page.get_by_role("row").nth(SHOWN).wait_for(state="attached")
    whole = page.evaluate("performance.now()")
    return page.evaluate(_PAINT), whole, page.evaluate(_FRAMES, 10)


def pictures(page: Page, url: str, directory: Path, query: str) -> None:
    """Takes a screenshot of each page of a running coordinator."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, path in {**PAGES, "query": f"queries/{query}"}.items():
        page.set_viewport_size({"width": 1200, "height": HEIGHTS.get(name, 640)})
        page.goto(f"{url}/console/#/{path}")
        page.wait_for_timeout(4000)
        for place in OPENED.get(name, ()):
            for opened in page.locator(place).all()[:1]:
                opened.click()
                page.wait_for_timeout(2000)
        page.screenshot(path=directory / f"{name}.png")


def main() -> None:
    """Measures, or takes screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, help="take pictures into this directory instead")
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="of a coordinator that runs")
    parser.add_argument("--query", default="hot", help="the query whose page is taken")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        if options.pictures:
            pictures(browser.new_page(), options.url, options.pictures, options.query)
            return
        found = []
        for _ in range(TURNS):
            page = browser.new_page()
            page.route("**/*", MadeUp().serve)
            found.append(measured(page))
            page.close()
    paint, whole, frame = (median(each) for each in zip(*found, strict=True))
    results = [
        Result("first paint", paint, "ms", "lower", aim=1000),
        Result(f"table of {QUERIES} queries there", whole, "ms", "lower"),
        Result("longest time between two frames, refreshing", frame, "ms", "lower"),
    ]
    write_report(OUT, results)


if __name__ == "__main__":
    main()
