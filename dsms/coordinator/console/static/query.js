// One query: what it is, how it runs, and its results as they change.

import { html, useEffect, useState } from "./vendor/preact.js";
import { change, lines, quoted, statements } from "./api.js";
import { State } from "./overview.js";
import { PlanGraph } from "./plan.js";
import { Failure, Table, short, usePolled } from "./parts.js";

const MOST_CHANGES = 200;

export function Query({ name }) {
  const path = encodeURIComponent(name);
  const { data, error } = usePolled(`/v1/queries/${path}`), operators = usePolled(`/v1/control/operators?query=${path}`);
  const [failure, setFailure] = useState(null);
  const paused = data?.paused;
  const toggle = () => change(`/v1/control/queries/${path}`, { paused: !paused }).then(() => setFailure(null), setFailure);
  return html`<article>
    <h1>${name}</h1>
    <${Failure} error=${failure ?? error} />
    ${data &&
    html`<div>
      <div class="row">
        <${State} state=${data.state} progress=${data.progress} />
        <span class="faint">
          ${data.kind}, topic ${data.topic}, frontier ${data.frontier ?? "–"}, ${short(data.progress?.unread)} records unread
        </span>
        <button class="plain" onClick=${toggle}>${paused ? "Resume" : "Pause"}</button>
      </div>
      <pre>${data.sql}</pre>
    </div>`}
    <h2>Operators</h2>
    <${PlanGraph} operators=${operators.data ?? []} query="" />
    <${Explained} name=${name} />
    ${data && html`<${Results} name=${name} columns=${data.columns} />`}
  </article>`;
}

function Explained({ name }) {
  const [plan, setPlan] = useState(null);
  const [error, setError] = useState(null);
  const ask = (event) => {
    if (event.target.open && !plan) statements(`EXPLAIN ${quoted(name)}`).then(([{ rows }]) => setPlan(rows), setError);
  };
  return html`<details onToggle=${ask}>
    <summary>EXPLAIN</summary>
    <${Failure} error=${error} />
    ${plan && html`<pre>${plan.map(([line]) => line).join("\n")}</pre>`}
  </details>`;
}

function Results({ name, columns }) {
  const [changes, setChanges] = useState([]);
  const rows = usePolled(`/v1/queries/${encodeURIComponent(name)}/relation?limit=100`, 3).data;
  const [error, setError] = useState(null);
  useEffect(() => {
    const control = new AbortController();
    const path = `/v1/queries/${encodeURIComponent(name)}/changes?from=latest`;
    const follow = async () => {
      let number = 0;
      for await (const line of lines(path, control.signal))
        if (line.op) setChanges((before) => [{ ...line, number: number++ }, ...before].slice(0, MOST_CHANGES));
    };
    follow().catch((problem) => control.signal.aborted || setError(problem));
    return () => control.abort();
  }, [name]);
  const shown = columns.map(({ name: column }) => ({ name: column, title: column, show: (row) => text(row[column]) }));
  const changed = columns.map(({ name: column }) => ({
    name: column, title: column, show: ({ row, key }) => text((row ?? key)?.[column]),
  }));
  return html`<section>
    <h2>Changes as they come</h2>
    <${Failure} error=${error} />
    <p class="faint" role="status">${changes.length === 0 ? "waiting for the next change" : `the last ${changes.length}`}</p>
    ${changes.length > 0 &&
    html`<${Table}
      caption="Changes"
      columns=${[{ name: "op", title: "Change", show: ({ op }) => html`<b class=${op === "-" ? "bad" : "good"}>${op}</b>` }, { name: "ts", title: "Instant", number: true }, ...changed]}
      rows=${changes}
      keyOf=${({ number }) => number}
    />`}
    ${rows &&
    html`<div>
      <h2>Rows at ${rows.at ?? rows.instant ?? "the last final instant"}</h2>
      <${Table} caption="Rows" columns=${shown} rows=${rows.rows.map(asObject(rows.columns))} keyOf=${(row) => JSON.stringify(row)} />
    </div>`}
  </section>`;
}

const text = (value) => (value === null || value === undefined ? html`<span class="faint">NULL</span>` : typeof value === "object" ? JSON.stringify(value) : String(value));

const asObject = (columns) => (row) => (Array.isArray(row) ? Object.fromEntries(columns.map((column, at) => [column.name ?? column, row[at]])) : row);
