// The settings with which the results of a query were computed, over time: the fractions of its records that were kept,
// and the sizes of its windows.

import { html, useState } from "./vendor/preact.js";
import { quoted } from "./api.js";
import { instantText } from "./instants.js";
import { Failure, Table, useStatement } from "./parts.js";

const WIDTH = 720, HEIGHT = 120;

export function Quality({ name }) {
  const [open, setOpen] = useState(false);
  return html`<details onToggle=${({ target }) => setOpen(target.open)}>
    <summary>Quality over time</summary>
    ${open && html`<${Settings} name=${name} />`}
  </details>`;
}

function Settings({ name }) {
  const { data, error } = useStatement(`EXPLAIN RESULT ${quoted(name)}`, 10);
  if (!data) return html`<${Failure} error=${error} />`;
  const [{ columns, rows, message, notices }] = data;
  const kinds = columns.map((title, at) => ({ name: title, title, value: (row) => row[at], number: typeof rows[0]?.[at] === "number" }));
  return html`<div>
    <${Failure} error=${error} />
    <p class="faint">${[message, ...(notices ?? [])].join("; ")}</p>
    ${rows.length > 0 && html`<${Steps} rows=${rows} />`}
    ${rows.length > 0 && html`<${Table} caption="Settings" columns=${kinds} rows=${rows} keyOf=${(row) => row.slice(0, 3).join()} />`}
  </div>`;
}

// Draws a line for each partition: its setting (the percentage of records kept, or the length of the first window) over
// the instants at which it applied.
function Steps({ rows }) {
  const steps = rows.map(([source, partition, , , setting, first, last]) => ({
    series: `${source}/${partition}`,
    value: Number.parseFloat(setting.replace(/^\D+/, "")),
    first,
    last,
  }));
  const known = steps.flatMap(({ first, last }) => [first, last]).filter((instant) => instant !== null).map(Number);
  const [from, to] = [Math.min(...known), Math.max(...known)];
  const margin = Math.max(1, (to - from) / 10), most = Math.max(...steps.map(({ value }) => value), 1);
  const x = (instant, other) => (WIDTH * (Number(instant ?? other) - (from - margin))) / (to - from + 2 * margin);
  const y = (value) => 18 + (HEIGHT - 40) * (1 - value / most);
  const series = [...new Set(steps.map((step) => step.series))];
  const path = (parts) =>
    parts
      .map(({ value, first, last }, at) => `${at ? "L" : "M"}${x(first, from - margin)} ${y(value)}H${x(last, to + margin)}`)
      .join("");
  if (known.length === 0) return null;
  return html`<svg class="steps" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label="Settings over instants">
    ${series.map((name) => html`<path key=${name} d=${path(steps.filter((step) => step.series === name))}><title>${name}</title></path>`)}
    <text x="4" y="12">${most}${rows[0][4].includes("%") ? " %" : ""}</text>
    <text x="4" y=${HEIGHT - 2}>${instantText(from)}</text>
    <text x=${WIDTH - 4} y=${HEIGHT - 2} text-anchor="end">${instantText(to)}</text>
  </svg>`;
}
