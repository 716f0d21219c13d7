"""The web console in Chromium, over a real cluster: its views of running queries, and its actions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from typer.testing import CliRunner

from dsms.cli.main import app as cli
from dsms.local.waiting import wait_until
from dsms.model.tokens import entry, new_token
from integration.cluster import Cluster, running
from integration.kafka_log import Input, advance, write
from tests.support.identity_provider import IdentityProvider

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
ORDERS = """REGISTER SOURCE orders (id BIGINT, customer TEXT, amount INT) FROM '{topic}' PARTITIONS 1
    TAGGED NONE IDLE NEVER;
CREATE STREAM o OVER orders KEY NULL;
CREATE STREAMED VIEW takings AS SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM o GROUP BY customer;
CREATE STREAMED VIEW regulars AS SELECT customer, COUNT(*) AS n FROM o GROUP BY customer HAVING COUNT(*) > 2"""


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("console")) as made:
        made.sql(ORDERS.format(topic=f"{made.name}orders"))
        made.start_executor()
        publish(kafka, made, [("ann", 5), ("bob", 7), ("ann", 2)], 10)
        made.await_frontier([made.topic("takings"), made.topic("regulars")], 10)
        yield made


def publish(kafka: str, cluster: Cluster, orders: list[tuple[str, int]], upto: int) -> None:
    rows = [{"id": at, "customer": customer, "amount": amount} for at, (customer, amount) in enumerate(orders)]
    write(kafka, f"{cluster.name}orders", [Input(json.dumps(row).encode(), upto - 1) for row in rows])
    advance(kafka, f"{cluster.name}orders", upto)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of the browser. Each error in its JavaScript console fails the test."""
    opened, complaints = browser.new_page(), []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield opened
    opened.close()
    assert [text for text in complaints if "status of 4" not in text] == []


def test_queries_are_listed_filtered_and_opened(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/")
    rows = page.get_by_role("table", name="Queries and views").get_by_role("row")
    expect(rows).to_have_count(3)
    expect(page.get_by_text("executor-1")).to_be_visible()
    page.get_by_label("Filter").fill("takings")
    expect(rows).to_have_count(2)
    page.get_by_role("link", name="takings").click()
    expect(page.get_by_role("heading", name="takings", exact=True)).to_be_visible()
    expect(page.get_by_text("running", exact=True)).to_be_visible()
    expect(page.get_by_role("table", name="Rows").get_by_role("row")).to_contain_text(["customer", "ann"])
    page.get_by_text("EXPLAIN").click()
    expect(page.get_by_text("GroupBy customer")).to_be_visible()


def test_changes_appear_as_they_are_published(kafka: str, cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/#/queries/takings")
    expect(page.get_by_text("waiting for the next change")).to_be_visible()
    publish(kafka, cluster, [("eve", 3), ("ann", 1)], 20)
    changes = page.get_by_role("table", name="Changes").get_by_role("row")
    expect(changes.filter(has_text="eve")).to_contain_text("+")
    expect(changes.filter(has_text="ann")).to_contain_text("u")
    expect(page.get_by_role("table", name="Rows").get_by_role("row").filter(has_text="eve")).to_be_visible()


def test_a_query_is_paused_and_resumed(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/#/queries/regulars")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert cluster.get("queries/regulars")["paused"] is True
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert cluster.get("queries/regulars")["paused"] is False


def test_the_plan_shows_what_is_shared(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/#/plan")
    graph = page.get_by_label("Graph of operators")
    expect(graph.get_by_role("img").filter(has_text="2 queries").first).to_be_visible()
    page.get_by_label("Highlight").select_option("takings")
    expect(graph.locator("g.off").first).to_be_attached()
    page.get_by_role("link", name="Memory and load").click()
    expect(page.get_by_role("heading", name="Memory by query")).to_be_visible()
    expect(page.get_by_role("link", name="takings").first).to_be_visible()


def test_refused_records_are_shown_with_their_reason(kafka: str, cluster: Cluster, page: Page) -> None:
    write(kafka, f"{cluster.name}orders", [Input(b"{no JSON", 25)])
    advance(kafka, f"{cluster.name}orders", 30)
    page.goto(f"{cluster.url}/console/#/sources")
    page.get_by_role("button", name="Dead letters of orders", exact=True).click()
    letters = page.get_by_role("table", name="Dead letters")
    expect(letters).to_contain_text("{no JSON")


def test_a_refused_record_is_corrected_and_written_again(kafka: str, cluster: Cluster, page: Page) -> None:
    write(kafka, f"{cluster.name}orders", [Input(b'{"id": 1, "customer": "zoe\'s", "amount": "six"}', 35)])
    page.goto(f"{cluster.url}/console/#/sources")
    page.get_by_role("button", name="Dead letters of orders", exact=True).click()
    row = page.get_by_role("table", name="Dead letters").get_by_role("row").filter(has_text="zoe")
    row.get_by_role("button", name="Replay").click()
    page.get_by_label("Record").fill('{"id": 1, "customer": "zoe\'s", "amount": 6}')
    page.get_by_role("button", name="Write to the topic again").click()
    expect(page.get_by_role("status")).to_contain_text("1 record written")
    expect(row).to_contain_text("done")
    advance(kafka, f"{cluster.name}orders", 40)
    page.goto(f"{cluster.url}/console/#/queries/takings")
    expect(page.get_by_role("table", name="Rows")).to_contain_text("zoe's")


def test_the_weight_of_a_query_is_changed(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/#/queries/regulars")
    page.get_by_label("Weight").fill("2.5")
    page.get_by_label("Weight").press("Tab")
    assert wait_until(lambda: cluster.get("queries/regulars")["weight"] == 2.5, 120)


def test_limits_and_the_policy_are_changed(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/#/queries/regulars")
    page.get_by_label("Maximum state in Redis").fill("2 MB")
    page.get_by_label("Maximum state in Redis").press("Enter")
    assert wait_until(lambda: cluster.get("control/queries/regulars")["state_memory"] == 2_000_000, 120)
    page.get_by_label("Maximum state in Redis").fill("much")
    page.get_by_label("Maximum state in Redis").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("much")
    page.get_by_role("link", name="Executors").click()
    executor = page.get_by_role("group", name="executor-1")
    executor.get_by_label("Policy").select_option("fifo")
    executor.get_by_label("Maximum records per batch").fill("400000")
    executor.get_by_label("Maximum records per batch").press("Enter")
    executor.get_by_label("Maximum state in Redis").fill("300 MB")
    executor.get_by_label("Maximum state in Redis").press("Enter")

    def changed() -> bool:
        (found,) = cluster.get("control/executors")
        wanted = {"policy": "fifo", "max_batch_records": 400_000, "state_memory": 300_000_000}
        return {name: found[name] for name in wanted} == wanted

    assert wait_until(changed, 120), str(cluster.get("control/executors"))
    executor.get_by_label("Maximum records per batch").fill("")
    executor.get_by_label("Maximum records per batch").press("Tab")
    assert wait_until(lambda: cluster.get("control/executors")[0]["max_batch_records"] != 400_000, 120)
    executor.get_by_label("Target seconds per batch").fill("0.001")
    executor.get_by_label("Target seconds per batch").press("Enter")
    expect(executor.get_by_role("alert")).to_contain_text("target_batch_seconds")


def test_the_settings_of_results_are_shown(kafka: str, cluster: Cluster, page: Page) -> None:
    """The console says that an exact query is exact, and lists the settings of a query that adapts its window."""
    page.goto(f"{cluster.url}/console/#/queries/takings")
    page.get_by_text("Quality over time").click()
    exact = page.get_by_text("at every instant its result is exact for a prefix of the input")
    expect(exact).to_be_visible()
    cluster.sql("""CREATE QUERY ranged WITH (memory = '1 KB') AS SELECT STREAMED customer, COUNT(*) AS n
        FROM o [Range Min 20 Max 100000] GROUP BY customer""")
    orders = [(f"customer {at}", at) for at in range(500)]

    at = int(cluster.get("queries/takings")["frontier"])

    def smaller() -> bool:
        nonlocal at
        at += 10
        publish(kafka, cluster, orders, at)
        cluster.await_frontier(cluster.topic("ranged"), at)
        return any("window of 20" in str(row) for row in cluster.sql("EXPLAIN RESULT ranged")[0]["rows"])

    assert wait_until(smaller, 120, pause_s=0.3)
    page.goto(f"{cluster.url}/console/#/queries/ranged")
    page.get_by_text("Quality over time").click()
    expect(page.get_by_role("img", name="Settings over instants")).to_be_visible()
    expect(page.get_by_role("table", name="Settings")).to_contain_text("window of 20")
    cluster.sql("DROP QUERY ranged")


def test_statements_are_completed_run_and_corrected(cluster: Cluster, page: Page) -> None:
    page.goto(f"{cluster.url}/console/#/sql")
    editor = page.get_by_role("textbox")
    editor.fill("SELECT customer, total FROM taki")
    editor.press("End")
    editor.press("Backspace")
    expect(page.get_by_role("button", name="takings")).to_be_visible()
    editor.press("Tab")
    expect(editor).to_have_value("SELECT customer, total FROM takings")
    editor.press("Control+Enter")
    expect(page.get_by_role("table", name="SELECT")).to_contain_text("bob")
    editor.fill("CREATE VIEW v AS SELECT customer,\n  nothing FROM o")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text('line 2, column 3: column "nothing" not found')
    marked = "area => area.value.slice(area.selectionStart, area.selectionEnd)"
    assert editor.evaluate(marked) == "nothing"


def test_a_terminal_shows_the_same(cluster: Cluster) -> None:
    answer = CliRunner().invoke(cli, ["top", "--once", "--format", "json", "--coordinator", cluster.url])
    seen = json.loads(answer.output)
    assert [executor["state"] for executor in seen["executors"]] == ["running"]
    assert {query["query"]: query["unread"] for query in seen["queries"]} == {"regulars": 0, "takings": 0}
    assert seen["queries"] == sorted(seen["queries"], key=lambda query: -query["load"])
    drawn = CliRunner().invoke(cli, ["top", "--once", "--sort", "name", "--coordinator", cluster.url]).output
    assert drawn.index("executor-1") < drawn.index("regulars") < drawn.index("takings")


def test_the_page_is_used_by_keyboard_and_has_a_dark_theme(cluster: Cluster, browser: Browser) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto(f"{cluster.url}/console/")
    expect(page.get_by_role("link", name="takings")).to_be_visible()
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) < 40
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Shared plan")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('input:not([id]), img:not([alt])').length") == 0
    page.close()


def test_with_tokens_a_user_signs_in(kafka: str, redis_url: str, tmp_path: Path, browser: Browser) -> None:
    token, known = new_token("ann", "reader")
    (tmp_path / "tokens.toml").write_text(entry(known))
    with running(kafka, redis_url, tmp_path, environment={"DSMS_TOKENS": str(tmp_path / "tokens.toml")}) as secured:
        page = browser.new_page()
        page.goto(f"{secured.url}/console/")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_text("No query yet")).to_be_visible()
        page.goto(f"{secured.url}/console/#/sql")
        page.get_by_role("textbox").fill("CREATE TABLE never_created (a INT)")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_role("alert")).to_contain_text("needs the role writer")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        page.goto(f"{secured.url}/console/#token={token}")
        expect(page.get_by_text("No query yet")).to_be_visible()
        assert page.url == f"{secured.url}/console/"
        page.close()


def test_a_user_signs_in_at_an_identity_provider(kafka: str, redis_url: str, tmp_path: Path, page: Page) -> None:
    provider = IdentityProvider()
    oidc = provider.settings(tmp_path / "oidc.toml")
    try:
        with running(kafka, redis_url, tmp_path, environment={"DSMS_OIDC": str(oidc)}) as secured:
            page.goto(f"{secured.url}/console/#/sql")
            provider.error = "access_denied"
            page.get_by_role("button", name="Sign in at 127.0.0.1").click()
            expect(page.get_by_role("alert")).to_contain_text("access_denied")
            provider.error = ""
            page.get_by_role("button", name="Sign in at 127.0.0.1").click()
            expect(page.get_by_role("button", name="Sign out")).to_be_visible()
            assert page.url == f"{secured.url}/console/#/sql"
            page.get_by_role("textbox").fill("CREATE TABLE never_created (a INT)")
            page.get_by_role("button", name="Run").click()
            expect(page.get_by_role("alert")).to_contain_text("needs the role writer")
            assert provider.refused == []
    finally:
        provider.close()
