// Processor time by query, and memory by query, queue and synopsis (STREAM, section 4).

import { html } from "./vendor/preact.js";
import { Bars, Failure, queryPath, usePolled } from "./parts.js";

export function Resources() {
  const [queries, queues, synopses] = ["queries", "queues", "synopses"].map((kind) => usePolled(`/v1/control/${kind}`));
  const of = (polled, part) => (polled.data ?? []).map(part);
  return html`<article>
    <h1>Memory and load</h1>
    <${Failure} error=${queries.error ?? queues.error ?? synopses.error} />
    <${Bars}
      title="Processor time by query, in cores"
      parts=${of(queries, ({ id, load }) => ({ name: id, href: queryPath(id), value: load ?? 0 }))}
      unit=""
      whole
    />
    <${Bars}
      title="Memory by query, including shared state"
      parts=${of(queries, ({ id, state_bytes }) => ({ name: id, href: queryPath(id), value: state_bytes ?? 0 }))}
      unit="B"
    />
    <${Bars}
      title="Memory by synopsis"
      parts=${of(synopses, ({ id, operator, queries, bytes }) => ({ name: `${operator} of ${queries.join(", ")} (${id.slice(-6)})`, value: bytes ?? 0 }))}
      unit="B"
      whole
    />
    <${Bars}
      title="Memory by queue"
      parts=${of(queues, ({ id, source, partition, bytes }) => ({ name: source ? `${source}/${partition}` : id, value: bytes ?? 0 }))}
      unit="B"
      whole
    />
  </article>`;
}
