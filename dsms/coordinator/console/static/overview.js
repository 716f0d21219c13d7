// The first page: all queries and views, the executors that run them, and alarms.

import { html, useMemo, useState } from "./vendor/preact.js";
import { Instant } from "./instants.js";
import { Failure, Table, queryPath, short, usePolled } from "./parts.js";

const STATES = { running: "good", failed: "bad", degraded: "warn" };

export const State = ({ state, progress }) =>
  html`<span class=${STATES[state?.split(/[ :]/)[0]] ?? "warn"}>${state}</span> ${progress?.catching_up &&
    html`<progress max="100" value=${progress.percent} aria-label="catching up">${progress.percent} %</progress>`}`;

const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

const COLUMNS = [
  { name: "name", title: "Name", show: ({ name }) => html`<a href=${queryPath(name)}>${name}</a>` },
  { name: "kind", title: "Kind" },
  { name: "state", title: "Status", show: (row) => html`<${State} ...${row} />` },
  { name: "lag", title: "Unread records", number: true, show: ({ lag }) => short(lag) },
  { name: "rate", title: "Records/s", number: true, show: ({ rate }) => short(rate) },
  { name: "load", title: "Load", number: true, show: ({ load }) => (load ?? 0).toFixed(3) },
  { name: "state_bytes", title: "State size", number: true, show: ({ state_bytes }) => short(state_bytes, "B") },
  { name: "frontier", title: "Frontier", number: true, show: ({ frontier }) => html`<${Instant} at=${frontier} />` },
];

export function Overview() {
  const queries = usePolled("/v1/queries"), running = usePolled("/v1/control/queries"), status = usePolled("/v1/status");
  const [wanted, setWanted] = useState("");
  const rows = useMemo(() => {
    const loads = new Map((running.data ?? []).map((query) => [query.id, query]));
    return (queries.data ?? [])
      .filter(({ name, sql }) => `${name} ${sql}`.toLowerCase().includes(wanted.toLowerCase()))
      .map((query) => ({
        ...query,
        load: loads.get(query.name)?.load,
        state_bytes: loads.get(query.name)?.state_bytes,
        lag: status.data?.lag[query.name],
        rate: query.progress?.records_per_second,
      }));
  }, [queries.data, running.data, status.data, wanted]);
  const executors = Object.entries(status.data?.executors ?? {});
  return html`<article>
    <h1>Queries</h1>
    <${Failure} error=${queries.error ?? running.error ?? status.error} />
    <div class="cards">
      ${executors.map(
        ([name, executor]) => html`<div class="card" key=${name}>
          <a class="faint" href="#/executors">${name}</a>
          <b class=${executor.state === "running" ? "good" : "warn"}>${executor.state}</b>
          <span class="faint">
            ${`${counted(Object.keys(executor.fragments).length, "fragment")}, ${short(executor.redis_bytes, "B")} in Redis, ${short(executor.disk_bytes, "B")} on disk`}
          </span>
        </div>`,
      )}
      ${(status.data?.alarms ?? []).map(
        (alarm) => html`<div class="card" role="alert">
          <span class="faint">${`${alarm.place}${alarm.partition === undefined ? "" : ` / ${alarm.partition}`}`}</span>
          <b class="bad">${alarm.reason}</b>
          <span class="faint">${alarm.count === undefined ? "" : `${alarm.count} records`}</span>
        </div>`,
      )}
    </div>
    <div class="row">
      <label for="filter">Filter</label>
      <input id="filter" type="search" value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
      <span class="faint" role="status">${rows.length} of ${(queries.data ?? []).length}</span>
    </div>
    <${Table} caption="Queries and views" columns=${COLUMNS} rows=${rows} keyOf=${({ name }) => name} sortedBy="name" />
    ${queries.data?.length === 0 && html`<p>No query yet: <a href="#/sql">write one</a>.</p>`}
  </article>`;
}
