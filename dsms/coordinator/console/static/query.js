// The page of a query: its text, its state, its operators, and its results as they change.

import { html, useEffect, useState } from "./vendor/preact.js";
import { change, lines, quoted, statements } from "./api.js";
import { History } from "./history.js";
import { Instant } from "./instants.js";
import { Drop } from "./objects.js";
import { State } from "./overview.js";
import { PlanGraph } from "./plan.js";
import { Quality } from "./quality.js";
import { Failure, Setting, Table, short, usePolled } from "./parts.js";

const MAX_CHANGES = 200;

export function Query({ name }) {
  const path = encodeURIComponent(name);
  const { data, error } = usePolled(`/v1/queries/${path}`), operators = usePolled(`/v1/control/operators?query=${path}`);
  const [failure, setFailure] = useState(null);
  const paused = data?.paused;
  const limits = usePolled(`/v1/control/queries/${path}`);
  const set = (attributes) => change(`/v1/control/queries/${path}`, attributes).then(() => setFailure(null), setFailure);
  return html`<article>
    <h1>${name}</h1>
    <${Failure} error=${failure ?? error ?? operators.error ?? limits.error} />
    ${data &&
    html`<div>
      <div class="row">
        <${State} state=${data.state} progress=${data.progress} />
        <span class="faint">
          ${data.kind}, topic ${data.topic}, frontier <${Instant} at=${data.frontier} />, ${short(data.progress?.unread)} records unread
        </span>
        <button class="plain" onClick=${() => set({ paused: !paused })}>${paused ? "Resume" : "Pause"}</button>
        <${Setting}
          id="weight"
          label="Weight"
          type="number"
          min="0"
          step="any"
          value=${data.weight}
          save=${(text) => text && set({ weight: Number(text) })}
        />
        <${Setting}
          id="state_memory"
          label="Maximum state in Redis"
          size="10"
          value=${limits.data && (limits.data.state_memory ?? "none")}
          save=${(text) => set({ state_memory: text || "none" })}
        />
      </div>
      <pre>${data.sql}</pre>
    </div>`}
    ${data && html`<${History} name=${name} />`}
    <h2>Operators</h2>
    <${PlanGraph} operators=${operators.data ?? []} query="" />
    <${Explained} name=${name} />
    <${Quality} name=${name} />
    ${data && html`<${Results} name=${name} columns=${data.columns} />`}
    ${data && html`<${Drop} kind=${data.kind} name=${name} />`}
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
  const path = `/v1/queries/${encodeURIComponent(name)}`;
  const { changes, ended, error } = useChanges(path);
  const rows = usePolled(`${path}/relation?limit=100`, 3);
  const column = (name_, value) => ({ name: `value ${name_}`, title: name_, value });
  const kinds = [
    { name: "op", title: "Change", show: ({ op }) => html`<b class=${op === "-" ? "bad" : "good"}>${op}</b>` },
    { name: "ts", title: "Instant", number: true, show: ({ ts }) => html`<${Instant} at=${ts} />` },
    ...columns.map((each) => column(each.name, ({ row, key }) => (row ?? key)[each.name])),
  ];
  return html`<section>
    <h2>Changes as they are committed</h2>
    <${Failure} error=${error} />
    ${ended && html`<p class="warn" role="alert">${ended}; connecting again</p>`}
    <p class="faint" role="status">${changes.length === 0 ? "waiting for the next change" : `the last ${changes.length}`}</p>
    ${changes.length > 0 &&
    html`<${Table} caption="Changes" columns=${kinds} rows=${changes} keyOf=${({ number }) => number} />`}
    <${Failure} error=${rows.error} />
    ${rows.data &&
    html`<div>
      <h2>Rows at <${Instant} at=${rows.data.at} /></h2>
      <${Table}
        caption="Rows"
        columns=${rows.data.columns.map((each, at) => column(each, (row) => row[at]))}
        rows=${rows.data.rows}
        keyOf=${(row) => JSON.stringify(row)}
      />
    </div>`}
  </section>`;
}

// The latest changes of a query, drawn at most once per frame. When the stream of changes ends, a new one begins after
// the last change received.
function useChanges(path) {
  const [state, setState] = useState({ changes: [] });
  useEffect(() => {
    const control = new AbortController();
    let number = 0, token = "", waiting = [], frame = 0, timer = 0;
    const draw = () => {
      const newest = waiting.slice(-MAX_CHANGES).reverse();
      [waiting, frame] = [[], 0];
      setState(({ changes }) => ({ changes: [...newest, ...changes].slice(0, MAX_CHANGES) }));
    };
    const take = (documents) => {
      for (const document of documents) {
        if (document.token) token = document.token;
        if (document.op) waiting.push({ ...document, number: number++ });
        if (document.event === "end") setState((before) => ({ ...before, ended: document.message }));
      }
      if (waiting.length > 0) frame ||= requestAnimationFrame(draw);
    };
    const follow = async () => {
      try {
        const from = token ? `after=${encodeURIComponent(token)}` : "from=latest";
        for await (const documents of lines(`${path}/changes?${from}`, control.signal)) take(documents);
      } catch (error) {
        if (control.signal.aborted) return;
        if (error.status === 410) token = "";
        setState((before) => ({ ...before, error }));
      }
      timer = setTimeout(follow, 3000);
    };
    follow();
    return () => (control.abort(), clearTimeout(timer), cancelAnimationFrame(frame));
  }, [path]);
  return state;
}
