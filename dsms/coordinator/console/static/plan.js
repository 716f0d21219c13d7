// The shared plan of all queries, as a graph of operators.

import { html, useMemo, useState } from "./vendor/preact.js";
import { Graph, layout } from "./vendor/dagre.js";
import { Failure, short, usePolled } from "./parts.js";

const WIDTH = 168, HEIGHT = 58, MOST = 400;

export function Plan() {
  const [query, setQuery] = useState("");
  const { data, error } = usePolled("/v1/control/operators");
  const names = [...new Set((data ?? []).flatMap(({ queries }) => queries))].sort();
  const own = (operator) => !query || operator.queries.includes(query);
  const all = data ?? [];
  const first = all.length > MOST ? [...all].sort((a, b) => own(b) - own(a)) : all;
  return html`<article>
    <h1>Shared plan</h1>
    <${Failure} error=${error} />
    <div class="row">
      <label for="query">Highlight</label>
      <select id="query" value=${query} onChange=${(event) => setQuery(event.target.value)}>
        <option value="">all queries</option>
        ${names.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select>
      <span class="faint">${(data ?? []).length} operators, ${(data ?? []).filter(({ queries }) => queries.length > 1).length} of them shared</span>
    </div>
    <${PlanGraph} operators=${first} query=${query} />
  </article>`;
}

export function PlanGraph({ operators, query }) {
  const shown = operators.slice(0, MOST);
  const shape = shown.map(({ id, inputs }) => `${id}<${inputs}`).join();
  const graph = useMemo(() => laidOut(shown), [shape]);
  const [zoom, setZoom] = useState(null);
  if (shown.length === 0) return html`<p class="faint">no operator is running</p>`;
  const { width, height } = graph.graph();
  const size = zoom ? { width: `${width * zoom}px`, height: `${height * zoom}px` } : { width: "100%", maxWidth: `${width}px` };
  const scale = (factor) => (event) => {
    const now = event.target.closest("section").querySelector("svg").getBoundingClientRect().width / width;
    setZoom(Math.min(4, Math.max(0.1, now * factor)));
  };
  return html`<section>
    <div class="row">
      <button class="plain" aria-label="Zoom out" onClick=${scale(1 / 1.4)}>−</button>
      <button class="plain" aria-label="Zoom in" onClick=${scale(1.4)}>+</button>
      <button class="plain" onClick=${() => setZoom(null)}>Whole plan</button>
    </div>
    <div class="plan" tabindex="0" role="group" aria-label="Graph of operators">
    <svg style=${size} viewBox=${`0 0 ${width} ${height}`}>
      ${graph.edges().map((edge) => html`<path key=${`${edge.v} ${edge.w}`} d=${line(graph.edge(edge).points)} />`)}
      ${shown.map((operator) => html`<${Box} key=${operator.id} operator=${operator} at=${graph.node(operator.id)} query=${query} />`)}
    </svg>
    ${operators.length > MOST && html`<p class="faint">only the first ${MOST} operators are shown</p>`}
    </div>
  </section>`;
}

function Box({ operator, at, query }) {
  const { operator: kind, queries, rows_out_per_second, load, state_rows, state_bytes } = operator;
  const off = query && !queries.includes(query);
  const details = `${kind}: ${queries.length} queries (${queries.slice(0, 8).join(", ")}); ${short(rows_out_per_second)} rows/s out, load ${(load ?? 0).toFixed(3)}, ${short(state_rows)} rows of state`;
  return html`<g transform=${`translate(${at.x - WIDTH / 2} ${at.y - HEIGHT / 2})`} class=${off ? "off" : ""} role="img" aria-label=${details}>
    <title>${details}</title>
    <rect class=${`box ${queries.length > 1 ? "on" : ""}`} width=${WIDTH} height=${HEIGHT} rx="6" />
    <text x="10" y="18">${kind}</text>
    <text class="small" x=${WIDTH - 10} y="18" text-anchor="end">${queries.length > 1 ? `${queries.length} queries` : queries[0]}</text>
    <text class="small" x="10" y="35">${short(rows_out_per_second)} rows/s</text>
    <text class="small" x="10" y="50">${state_bytes ? `${short(state_bytes, "B")} of state` : ""}</text>
    <rect x="0" y=${HEIGHT - 4} width=${Math.min(1, load ?? 0) * WIDTH} height="4" fill="var(--bar)" />
  </g>`;
}

function laidOut(operators) {
  const graph = new Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 18, ranksep: 46, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of operators) graph.setNode(id, { width: WIDTH, height: HEIGHT });
  for (const { id, inputs } of operators)
    for (const input of inputs) if (graph.hasNode(input)) graph.setEdge(input, id);
  layout(graph);
  return graph;
}

const line = (points) => points.map(({ x, y }, at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
