// The load of a query over the last hours: its records per second, unread records, state and cores.

import { html, useState } from "./vendor/preact.js";
import { Failure, short, usePolled } from "./parts.js";
import { instantText } from "./instants.js";

const WIDTH = 360, HEIGHT = 110, TOP = 18, BOTTOM = 18;
const SPANS = [[15, "15 minutes"], [60, "an hour"], [360, "6 hours"]];
const CHARTS = [
  ["records_per_second", "Records/s", ""],
  ["unread", "Unread records", ""],
  ["state_bytes", "State size", "B"],
  ["load", "Cores", ""],
];

export function History({ name }) {
  const [minutes, setMinutes] = useState(60);
  const { data, error } = usePolled(`/v1/queries/${encodeURIComponent(name)}/history?minutes=${minutes}`, 10);
  const samples = (data ?? []).map((sample) => ({ ...sample, at: Date.parse(sample.at) }));
  const choice = ([count, text]) => html`<option value=${count} selected=${count === minutes}>${text}</option>`;
  return html`<section>
    <h2>Load over time</h2>
    <div class="row">
      <label for="span">The last</label>
      <select id="span" onChange=${({ target }) => setMinutes(Number(target.value))}>${SPANS.map(choice)}</select>
    </div>
    <${Failure} error=${error} />
    ${data && samples.length < 2 && html`<p class="faint">There are no two samples yet. One is taken every ten seconds.</p>`}
    ${samples.length > 1 && html`<div class="charts">${CHARTS.map(([field, title, unit]) => html`<${Chart} samples=${samples} ...${{ field, title, unit }} />`)}</div>`}
  </section>`;
}

// A line over the times of the samples. It is interrupted where samples are missing.
function Chart({ samples, field, title, unit }) {
  const [first, last] = [samples[0].at, samples.at(-1).at];
  const most = Math.max(...samples.map((sample) => sample[field]), 1e-9);
  const x = (at) => (WIDTH * (at - first)) / (last - first || 1);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
  const gap = 3 * Math.min(...samples.slice(1).map((sample, at) => sample.at - samples[at].at));
  const path = samples
    .map((sample, at) => `${at && sample.at - samples[at - 1].at <= gap ? "L" : "M"}${x(sample.at).toFixed(1)} ${y(sample[field]).toFixed(1)}`)
    .join("");
  const now = short(samples.at(-1)[field], unit), highest = short(most < 1e-6 ? 0 : most, unit);
  return html`<figure>
    <figcaption>${title}: <b>${now}</b></figcaption>
    <svg class="steps" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`${title}: now ${now}, at most ${highest}`}>
      <path d=${path} />
      <text x="2" y="12">${highest}</text>
      <text x="2" y=${HEIGHT - 2}>${clock(first)}</text>
      <text x=${WIDTH - 2} y=${HEIGHT - 2} text-anchor="end">${clock(last)}</text>
    </svg>
  </figure>`;
}

const clock = (at) => instantText(at).slice(11, 19);
