"""Integration tests of several files run on one broker at the same time. A result without `WITH (topic = …)` goes to
the topic `dsms.NAME`, and a second query that writes this topic is refused. So no two files give one name to results.
"""

import re
from collections import defaultdict
from pathlib import Path

INTEGRATION = Path(__file__).parents[1] / "integration"
CREATED = re.compile(
    r"CREATE (?:OR REPLACE )?(?:STREAMED |MATERIALIZED )*(?:VIEW|QUERY|TABLE) (?:IF NOT EXISTS )?(\w+)\b(?![{\w])"
    r"(?! WITH \(topic)",
    re.IGNORECASE,
)
MODEL = re.compile(r'"models" / "(\w+)\.sql"')
#: These start brokers of their own, or run no broker.
OWN_SERVICES = ("local_broker(", "linked_broker(", "started(tmp_path", "LocalSession(", "published_views")


def created_names(text: str) -> set[str]:
    """The names of results that a file of tests creates; those with a prefix such as `{unique}v` are not among them."""
    return set(CREATED.findall(text)) | set(MODEL.findall(text))


def test_no_two_files_give_one_name_to_results():
    files = defaultdict(set)
    for path in INTEGRATION.rglob("test_*.py"):
        text = path.read_text()
        if path.parent.name != "kube" and not any(made in text for made in OWN_SERVICES):
            for name in created_names(text):
                files[name].add(path.name)
    assert {name: sorted(found) for name, found in files.items() if len(found) > 1} == {}


def test_names_are_found():
    text = 'CREATE VIEW a AS …; CREATE STREAMED VIEW b WITH (topic = …); CREATE TABLE {unique}c (…); "models" / "d.sql"'
    assert created_names(text) == {"a", "d"}
