// Sources: what waits in them, and what they refused.

import { html, useState } from "./vendor/preact.js";
import { Failure, Table, short, shown, usePolled } from "./parts.js";

export function Sources() {
  const sources = usePolled("/v1/sources", 5), queues = usePolled("/v1/control/queues"), status = usePolled("/v1/status");
  const [chosen, choose] = useState("");
  const refused = {};
  for (const executor of Object.values(status.data?.executors ?? {}))
    for (const [name, count] of Object.entries(executor.dead_letters)) refused[name] = (refused[name] ?? 0) + count;
  const rows = (sources.data ?? []).map((source) => ({
    ...source,
    unread: (queues.data ?? []).filter((queue) => queue.source === source.name).reduce((sum, { rows }) => sum + rows, 0),
    refused: refused[source.name] ?? 0,
  }));
  const columns = [
    { name: "name", title: "Name" },
    { name: "topic", title: "Topic" },
    { name: "partitions", title: "Partitions", number: true },
    { name: "unread", title: "Unread records", number: true, show: ({ unread }) => short(unread) },
    {
      name: "refused",
      title: "Dead letters",
      number: true,
      show: ({ name, refused }) =>
        html`<button class="plain" onClick=${() => choose(name)} aria-label=${`Dead letters of ${name}`}>${short(refused)}</button>`,
    },
  ];
  return html`<article>
    <h1>Sources</h1>
    <${Failure} error=${sources.error ?? queues.error ?? status.error} />
    <${Table} caption="Sources" columns=${columns} rows=${rows} keyOf=${({ name }) => name} sortedBy="name" />
    ${chosen && html`<${DeadLetters} key=${chosen} source=${chosen} />`}
  </article>`;
}

function DeadLetters({ source }) {
  const { data, error } = usePolled(`/v1/sources/${encodeURIComponent(source)}/dead-letters?limit=100`, 5);
  const columns = [
    { name: "reason", title: "Reason" },
    { name: "partition", title: "Partition", number: true },
    { name: "offset", title: "Offset", number: true },
    { name: "value", title: "Record", show: ({ value }) => html`<code>${shown(value)}</code>` },
  ];
  return html`<section>
    <h2>Dead letters of ${source}</h2>
    <${Failure} error=${error} />
    ${data?.length === 0 && html`<p class="faint">none</p>`}
    ${data?.length > 0 &&
    html`<${Table} caption="Dead letters" columns=${columns} rows=${data} keyOf=${({ partition, offset }) => `${partition}/${offset}`} />`}
  </section>`;
}
