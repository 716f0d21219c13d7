// The page of sources: their unread records, and their dead letters.

import { html, useState } from "./vendor/preact.js";
import { literal, quoted, statements } from "./api.js";
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
  const [chosen, choose] = useState(null);
  const columns = [
    { name: "reason", title: "Reason" },
    { name: "partition", title: "Partition", number: true },
    { name: "offset", title: "Offset", number: true },
    { name: "value", title: "Record", show: ({ value }) => html`<code>${shown(value)}</code>` },
    {
      name: "replayed",
      title: "Replay",
      show: (letter) =>
        letter.replayed || letter.query
          ? html`<span class="faint">${letter.replayed ? "done" : `fault in query ${letter.query}`}</span>`
          : html`<button class="plain" onClick=${() => choose(letter)} aria-label=${`Replay ${letter.partition}/${letter.offset}`}>
              Replay…
            </button>`,
    },
  ];
  return html`<section>
    <h2>Dead letters of ${source}</h2>
    <${Failure} error=${error} />
    ${chosen && html`<${Replay} key=${`${chosen.partition}/${chosen.offset}`} source=${source} letter=${chosen} close=${() => choose(null)} />`}
    ${data?.length === 0 && html`<p class="faint">none</p>`}
    ${data?.length > 0 &&
    html`<${Table} caption="Dead letters" columns=${columns} rows=${data} keyOf=${({ partition, offset }) => `${partition}/${offset}`} />`}
  </section>`;
}

// A form that writes a refused record to its topic again, corrected or unchanged; or all refused records, unchanged.
function Replay({ source, letter, close }) {
  const [value, setValue] = useState(letter.value ?? "");
  const [outcome, setOutcome] = useState({});
  const one = ` WHERE partition = ${letter.partition} AND "offset" = ${letter.offset}`;
  const run = (rest) => {
    setOutcome({ running: true });
    statements(`REPLAY DEAD LETTERS OF ${quoted(source)}${rest}`).then(([result]) => setOutcome({ result }), (error) => setOutcome({ error }));
  };
  const corrected = value === (letter.value ?? "") ? "" : ` SET value = ${literal(value)}`;
  return html`<form onSubmit=${(event) => (event.preventDefault(), run(corrected + one))} aria-label="Replay">
    <p>${letter.reason}</p>
    ${letter.value === undefined
      ? html`<p class="faint">The record is not text. It is written again unchanged.</p>`
      : html`<label>Record <textarea value=${value} onInput=${(event) => setValue(event.target.value)} spellcheck=${false} /></label>`}
    <div class="row">
      <button class="plain" disabled=${outcome.running}>Write to the topic again</button>
      <button class="plain" type="button" disabled=${outcome.running} onClick=${() => run("")}>Write all dead letters again, unchanged</button>
      <button class="plain" type="button" onClick=${close}>Close</button>
    </div>
    <${Failure} error=${outcome.error} />
    <p role="status">${outcome.result && [outcome.result.message, ...(outcome.result.notices ?? [])].join("; ")}</p>
  </form>`;
}
