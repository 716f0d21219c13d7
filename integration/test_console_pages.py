"""The pages of the console about objects, load over time and the audit log, in Chromium over a real cluster; and what
the SQL page keeps: earlier statements, and results as files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, running
from integration.kafka_log import Input, advance, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
STATEMENTS = """REGISTER SOURCE orders (id BIGINT, customer TEXT, amount INT) FROM '{topic}' PARTITIONS 1
    TAGGED NONE IDLE NEVER;
CREATE STREAM o OVER orders KEY NULL;
CREATE STREAMED VIEW earnings AS SELECT customer, SUM(amount) AS total FROM o GROUP BY customer;
CREATE TABLE animals (pet TEXT PRIMARY KEY, says TEXT);
INSERT INTO animals VALUES ('rex', 'a "bark", loud'), ('tom', NULL), ('mew', '')"""


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("pages")) as made:
        made.sql(STATEMENTS.format(topic=f"{made.name}orders"))
        made.start_executor()
        order = {"id": 1, "customer": "ann", "amount": 5}
        write(kafka, f"{made.name}orders", [Input(json.dumps(order).encode(), 9)])
        advance(kafka, f"{made.name}orders", 10)
        made.await_frontier([made.topic("earnings")], 10)
        yield made


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of the browser. Each error in its JavaScript console fails the test."""
    opened, complaints = browser.new_page(), []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield opened
    opened.close()
    assert [text for text in complaints if "status of 4" not in text] == []


def test_objects_are_listed_and_opened(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/#/objects")
    rows = page.get_by_role("table", name="Objects").get_by_role("row")
    expect(rows.filter(has=page.get_by_role("link", name="earnings"))).to_have_count(1)
    page.get_by_label("Filter").fill("orders")
    expect(rows.filter(has_text="source")).to_contain_text("id, customer, amount")
    page.get_by_label("Filter").fill("animals")
    page.get_by_role("link", name="animals").click()
    columns = page.get_by_role("table", name="Columns").get_by_role("row")
    expect(columns).to_contain_text(["May be NULL", "yes"])
    expect(columns.filter(has_text="pet")).to_have_count(1)
    expect(page.get_by_role("table", name="Rows")).to_contain_text("rex")


def test_an_object_is_dropped_after_its_name_was_typed(cluster: Cluster, page: Page) -> None:
    cluster.sql("CREATE TABLE spare (a INT); CREATE STREAMED VIEW over_spare AS SELECT a FROM spare")
    page.goto(f"{cluster.url}/console/#/objects/spare")
    page.get_by_role("button", name="Drop…").click()
    drop = page.get_by_role("button", name="Drop", exact=True)
    expect(drop).to_be_disabled()
    page.get_by_label("Name").fill("spare")
    drop.click()
    expect(page.get_by_role("alert")).to_contain_text("over_spare")
    page.goto(f"{cluster.url}/console/#/queries/over_spare")
    page.get_by_role("button", name="Drop…").click()
    page.get_by_label("Name").fill("over_spare")
    page.get_by_label("Name").press("Enter")
    expect(page.get_by_role("heading", name="Objects")).to_be_visible()
    assert "over_spare" not in [query["name"] for query in cluster.get("queries")]
    cluster.sql("DROP TABLE spare")


def test_the_load_of_a_query_is_drawn_over_time(cluster: Cluster, page: Page) -> None:
    assert wait_until(lambda: len(cluster.get("queries/earnings/history")) > 1, 120)
    sample = cluster.get("queries/earnings/history")[-1]
    assert sample["unread"] == 0 and sample["state_bytes"] > 0
    page.goto(f"{cluster.url}/console/#/queries/earnings")
    expect(page.get_by_role("img", name="Unread records: now 0, at most")).to_be_visible()
    page.get_by_label("The last", exact=True).select_option("6 hours")
    expect(page.get_by_role("img", name="State size: now")).to_be_visible()


def test_the_audit_log_is_shown(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/#/audit")
    expect(page.get_by_role("table", name="The last entries")).to_contain_text("INSERT INTO animals")


def test_earlier_statements_are_run_again(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/#/sql")
    for sql in ("SHOW TABLES", "SHOW VIEWS", "SHOW TABLES"):
        page.get_by_role("textbox").fill(sql)
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_role("table", name="SHOW")).to_contain_text(
            "animals" if sql == "SHOW TABLES" else "earnings"
        )
    page.get_by_text("Statements that ran before (2)").click()
    page.get_by_role("button", name="SHOW VIEWS").click()
    expect(page.get_by_role("textbox")).to_have_value("SHOW VIEWS")
    page.get_by_role("button", name="Forget them").click()
    expect(page.get_by_text("Statements that ran before")).to_have_count(0)


def test_a_result_is_saved_as_a_file(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/#/sql")
    page.get_by_role("textbox").fill("SELECT pet, says FROM animals ORDER BY pet")
    page.get_by_role("button", name="Run", exact=True).click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    text = Path(saved.value.path()).read_text("utf-8")
    assert list(csv.reader(io.StringIO(text, newline=""))) == [
        ["pet", "says"], ["mew", ""], ["rex", 'a "bark", loud'], ["tom", ""],
    ]  # fmt: skip
    assert text.splitlines()[1:] == ['mew,""', 'rex,"a ""bark"", loud"', "tom,"], "NULL differs from an empty text"
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as JSON").click()
    assert json.loads(Path(saved.value.path()).read_text("utf-8"))[1:] == [
        {"pet": "rex", "says": 'a "bark", loud'}, {"pet": "tom", "says": None},
    ]  # fmt: skip
