// The page of all objects of the catalog, and that of one of them: its columns, its statement, what may be done with it.

import { html, useMemo, useState } from "./vendor/preact.js";
import { quoted, statements } from "./api.js";
import { Failure, ResultTable, Table, queryPath, usePolled, useStatement } from "./parts.js";

const COLUMNS = [
  { name: "name", title: "Name", show: ({ name }) => html`<a href=${objectPath(name)}>${name}</a>` },
  { name: "kind", title: "Kind" },
  { name: "columns", title: "Columns", value: ({ columns }) => (columns ?? []).map(({ name }) => name).join(", ") },
  { name: "topic", title: "Topic" },
];

export const objectPath = (name) => `#/objects/${encodeURIComponent(name)}`;

export function Objects({ name }) {
  return name ? html`<${OneObject} name=${name} />` : html`<${AllObjects} />`;
}

function AllObjects() {
  const kinds = ["sources", "streams", "queries"].map((kind) => usePolled(`/v1/${kind}`, 5));
  const [wanted, setWanted] = useState("");
  const rows = useMemo(() => {
    const found = new Map(kinds.flatMap(({ data }) => data ?? []).map((object) => [object.name, object]));
    return [...found.values()].filter(({ name, kind, sql }) => `${name} ${kind} ${sql}`.toLowerCase().includes(wanted.toLowerCase()));
  }, [...kinds.map(({ data }) => data), wanted]);
  return html`<article>
    <h1>Objects</h1>
    <${Failure} error=${kinds.map(({ error }) => error).find(Boolean)} />
    <div class="row">
      <label for="filter">Filter</label>
      <input id="filter" type="search" value=${wanted} onInput=${({ target }) => setWanted(target.value)} />
      <span class="faint" role="status">${rows.length}</span>
    </div>
    <${Table} caption="Objects" columns=${COLUMNS} rows=${rows} keyOf=${({ name }) => name} sortedBy="name" />
    <${Listed} title="Functions" sql="SHOW FUNCTIONS" />
    <${Listed} title="Aggregates" sql="SHOW AGGREGATES" />
  </article>`;
}

// The answer of a SHOW statement, under a heading; nothing while it has no rows.
export function Listed({ title, sql, seconds = 10 }) {
  const { data, error } = useStatement(sql, seconds);
  const [{ columns, rows } = { columns: [], rows: [] }] = data ?? [];
  return html`<section>
    <${Failure} error=${error} />
    ${rows.length > 0 && html`<h2>${title}</h2>
      <${ResultTable} caption=${title} columns=${columns} rows=${rows} />`}
  </section>`;
}

const FACTS = [["topic", "Topic"], ["format", "Format"], ["partitions", "Partitions"], ["timestamp", "Time from"], ["state", "Status"]];

function OneObject({ name }) {
  const { data, error } = usePolled(`/v1/streams/${encodeURIComponent(name)}`, 5);
  const columns = [
    { name: "name", title: "Column" },
    { name: "type", title: "Type" },
    { name: "nullable", title: "May be NULL", value: ({ nullable }) => (nullable ? "yes" : "no") },
    { name: "key", title: "Key", value: (column) => (data.key?.includes(column.name) ? "yes" : "") },
  ];
  const facts = FACTS.filter(([field]) => data?.[field] !== undefined && data[field] !== null);
  return html`<article>
    <h1>${name}</h1>
    <${Failure} error=${error} />
    ${data &&
    html`<div>
      <p class="faint">${[data.kind, ...facts.map(([field, title]) => `${title.toLowerCase()} ${data[field]}`)].join(", ")}</p>
      ${data.frontier !== undefined && html`<p><a href=${queryPath(name)}>State, results and operators</a></p>`}
      <pre>${data.sql}</pre>
      <h2>Columns</h2>
      <${Table} caption="Columns" columns=${columns} rows=${data.columns ?? []} keyOf=${(column) => column.name} />
      ${data.kind === "table" && html`<${Listed} title="Rows" sql=${`SELECT * FROM ${quoted(name)} LIMIT 100`} seconds=${5} />`}
      <${Drop} kind=${data.kind} name=${name} />
    </div>`}
  </article>`;
}

// Drops an object after its name was typed.
export function Drop({ kind, name }) {
  const [open, setOpen] = useState(false);
  const [typed, setTyped] = useState("");
  const [error, setError] = useState(null);
  const drop = (event) => {
    event.preventDefault();
    statements(`DROP ${kind.toUpperCase()} ${quoted(name)}`).then(() => (location.hash = "#/objects"), setError);
  };
  if (!open) return html`<div class="row"><button class="plain" onClick=${() => setOpen(true)}>Drop…</button></div>`;
  return html`<form class="card" onSubmit=${drop} aria-label=${`Drop ${name}`}>
    <p>This removes ${name}, its state and its results for good. Type its name to confirm.</p>
    <${Failure} error=${error} />
    <div class="row">
      <label for="drop">Name</label>
      <input id="drop" value=${typed} autocomplete="off" onInput=${({ target }) => setTyped(target.value)} />
      <button class="plain bad" disabled=${typed !== name}>Drop</button>
      <button class="plain" type="button" onClick=${() => setOpen(false)}>Cancel</button>
    </div>
  </form>`;
}
