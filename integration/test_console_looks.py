"""What the console looks like: each page at the width of a desktop and of a phone, times, and the plan as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, running
from integration.kafka_log import Input, advance, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
PAGES = ("", "plan", "sources", "resources", "executors", "objects", "objects/pets", "audit", "sql", "queries/spent")
#: A desktop and a phone, in pixels.
SIZES = ((1400, 900), (390, 844))
#: 2026-11-30T12:00:00Z
NOON = 1_796_040_000_000
STATEMENTS = """REGISTER SOURCE visits (visitor TEXT, amount INT) FROM '{topic}' PARTITIONS 1 TAGGED NONE IDLE NEVER;
CREATE STREAM v OVER visits KEY NULL;
CREATE STREAMED VIEW spent AS SELECT visitor, COUNT(*) AS n, SUM(amount) AS selected_total FROM v GROUP BY visitor;
CREATE STREAMED VIEW joined AS SELECT a.visitor, a.n, b.most FROM R(spent) a
    JOIN (SELECT visitor, MAX(amount) AS most FROM v GROUP BY visitor) b ON a.visitor = b.visitor;
CREATE TABLE pets (pet TEXT PRIMARY KEY, age INT);
CREATE STREAMED VIEW adults AS SELECT pet, age FROM pets WHERE age > 1"""


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("looks")) as made:
        made.sql(STATEMENTS.format(topic=f"{made.name}visits"))
        made.start_executor()
        rows = [{"visitor": name, "amount": amount} for name, amount in (("ann", 5), ("bob", 7), ("ann", 2))]
        write(kafka, f"{made.name}visits", [Input(json.dumps(row).encode(), NOON) for row in rows])
        advance(kafka, f"{made.name}visits", NOON + 1_500)
        made.await_frontier([made.topic("spent"), made.topic("joined")], NOON + 1_500)
        yield made


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": SIZES[0][0], "height": SIZES[0][1]})
    yield opened
    opened.close()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path or "overview")
def test_no_page_is_wider_than_the_screen(cluster: Cluster, browser: Browser, tmp_path: Path, path: str) -> None:
    """A screenshot of each page is kept in the directory DSMS_SCREENSHOTS, if it is set."""
    kept = Path(os.environ.get("DSMS_SCREENSHOTS", tmp_path))
    for width, height in SIZES:
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(f"{cluster.url}/console/#/{path}")
        expect(page.locator("main h1")).to_be_visible()
        page.wait_for_load_state("networkidle") if path == "sql" else expect(page.locator("article")).not_to_be_empty()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        picture = page.screenshot(path=kept / f"{path.replace('/', '-') or 'overview'}-{width}.png")
        assert len(picture) > 5_000, "an empty page is smaller"
        page.close()


def test_instants_of_times_are_shown_as_times(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/")
    row = page.get_by_role("table", name="Queries and views").get_by_role("row").filter(has_text="spent")
    expect(row).to_contain_text("2026-11-30T12:00:01.500Z")
    expect(row.locator("time").first).to_have_attribute("title", str(NOON + 1_500))
    page.get_by_role("link", name="spent").click()
    expect(page.get_by_role("heading", name="Rows at 2026-11-30T12:00:01.499Z")).to_be_visible()


def test_headings_of_a_table_differ(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/")
    headings = page.get_by_role("table", name="Queries and views").get_by_role("columnheader")
    expect(headings).to_have_count(8)
    names = headings.all_inner_texts()
    assert len(set(names)) == len(names), names


def test_columns_that_a_removed_row_does_not_have_are_empty(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/#/queries/adults")
    expect(page.get_by_text("waiting for the next change")).to_be_visible()
    cluster.sql("INSERT INTO pets VALUES ('rex', 4), ('tom', NULL)")
    changes = page.get_by_role("table", name="Changes").get_by_role("row").filter(has_text="rex")
    expect(changes).to_have_count(1)
    cluster.sql("DELETE FROM pets WHERE pet = 'rex'")
    expect(changes).to_have_count(2)
    removed = changes.filter(has=page.get_by_text("-", exact=True))
    expect(removed).to_have_count(1)
    expect(removed.get_by_role("cell").last).to_be_empty()


def test_a_coordinator_that_does_not_answer_is_named(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/")
    expect(page.get_by_role("link", name="spent")).to_be_visible()
    page.route("**/v1/**", lambda route: route.abort())
    expect(page.get_by_role("alert")).to_contain_text("the coordinator does not answer")
    page.unroute("**/v1/**")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_word_in_capitals_is_completed_to_a_keyword(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/#/sql")
    editor = page.get_by_role("textbox")
    for typed, choice, completed in (("SEL", "SELECT", "SELECT"), ("selected", "selected_total", "selected_total")):
        editor.fill(typed[:-1])
        editor.press("End")
        editor.press_sequentially(typed[-1])
        expect(page.get_by_role("button", name="selected_total")).to_be_visible()
        expect(page.get_by_role("button", name=choice, exact=True)).to_be_visible()
        editor.press("Tab")
        expect(editor).to_have_value(completed)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_whole_plan_is_shown_and_enlarged(cluster: Cluster, browser: Browser, width: int, height: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(f"{cluster.url}/console/#/plan")
    graph = page.get_by_label("Graph of operators")
    expect(graph.get_by_role("img").first).to_be_visible()
    whole, drawn = "e => e.scrollWidth <= e.clientWidth", "e => e.querySelector('svg').getBoundingClientRect().width"
    assert wait_until(lambda: graph.evaluate(whole), 120)
    before = graph.evaluate(drawn)
    page.get_by_role("button", name="Zoom in").click()
    assert wait_until(lambda: graph.evaluate(drawn) > 1.2 * before, 120)
    page.get_by_role("button", name="Whole plan").click()
    assert wait_until(lambda: abs(graph.evaluate(drawn) - before) < 1, 120)
    page.close()
