// The page of executors: what they run, and their policies and limits, which can be changed while they run.

import { html, useState } from "./vendor/preact.js";
import { change } from "./api.js";
import { Failure, Setting, short, usePolled } from "./parts.js";
import { POLICIES } from "./policies.js";

export function Executors() {
  const { data, error } = usePolled("/v1/control/executors");
  return html`<article>
    <h1>Executors</h1>
    <p class="faint">
      Changes take effect with the next batch. An empty field restores the value with which the executor was started. "none" removes
      the limit of the state in Redis.
    </p>
    <${Failure} error=${error} />
    ${data?.length === 0 && html`<p>No executor is running.</p>`}
    ${(data ?? []).map((executor) => html`<${Executor} key=${executor.id} executor=${executor} />`)}
  </article>`;
}

function Executor({ executor }) {
  const { id, state, fragments, policy, batch_records, redis_bytes, disk_bytes } = executor;
  const [failures, setFailures] = useState({});
  const path = `/v1/control/executors/${encodeURIComponent(id)}`;
  const failed = (name) => (error) => setFailures((before) => ({ ...before, [name]: error }));
  const set = (name, value) => change(path, { [name]: value }).then(() => failed(name)(null), failed(name));
  const number = (name, label, least) => html`<${Setting}
    id=${`${id} ${name}`}
    label=${label}
    type="number"
    min=${least}
    step="any"
    value=${executor[name]}
    save=${(text) => set(name, text === "" ? null : Number(text))}
  />`;
  const known = POLICIES.includes(policy) ? POLICIES : [policy, ...POLICIES];
  return html`<section class="card" role="group" aria-label=${id}>
    <h2>${id} <span class=${state === "running" ? "good" : "warn"}>${state}</span></h2>
    <p class="faint">
      ${`fragments ${fragments.join(", ") || "–"}; ${short(batch_records)} records in the last batch; ${short(redis_bytes, "B")} in Redis, ${short(disk_bytes, "B")} on disk`}
    </p>
    ${Object.entries(failures).map(([name, error]) => html`<${Failure} key=${name} error=${error} />`)}
    <div class="row">
      <label for=${`${id} policy`}>Policy</label>
      <select id=${`${id} policy`} value=${policy} onChange=${({ target }) => set("policy", target.value)}>
        ${known.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select>
      ${number("min_batch_records", "Minimum records per batch", 1)} ${number("max_batch_records", "Maximum records per batch", 1)}
      ${number("target_batch_seconds", "Target seconds per batch", 0.01)}
      ${number("trigger_interval_seconds", "Seconds between batches", 0)}
      <${Setting}
        id=${`${id} state_memory`}
        label="Maximum state in Redis"
        size="10"
        value=${executor.state_memory ?? "none"}
        save=${(text) => set("state_memory", text === "" ? null : text)}
      />
    </div>
  </section>`;
}
