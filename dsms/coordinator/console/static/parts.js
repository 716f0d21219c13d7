// What the pages have in common: polling, fields, tables, bars, and the format of numbers.

import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { get, statements } from "./api.js";

// The latest answer of a call that is repeated every `seconds` while the page is visible.
export const usePolled = (path, seconds = 2) => useAsked((signal) => get(path, { signal }), path, seconds);

// Like `usePolled`, for the results of statements.
export const useStatement = (sql, seconds) => useAsked((signal) => statements(sql, signal), sql, seconds);

function useAsked(call, key, seconds) {
  const [state, setState] = useState({});
  useEffect(() => {
    const control = new AbortController();
    let timer;
    const ask = async () => {
      try {
        if (!document.hidden) setState({ data: await call(control.signal) });
      } catch (error) {
        if (!control.signal.aborted) setState((before) => ({ ...before, error }));
      }
      if (!control.signal.aborted) timer = setTimeout(ask, seconds * 1000);
    };
    ask();
    return () => (control.abort(), clearTimeout(timer));
  }, [key, seconds]);
  return state;
}

// A field for an attribute. Polling does not replace text that is being typed. The text is saved when the focus leaves
// the field, unless a number is required and the text is not one. The field is disabled until the value is known.
export function Setting({ id, label, value, save, ...input }) {
  const [typed, setTyped] = useState(null);
  const leave = ({ target }) => {
    if (typed !== null && typed !== String(value ?? "") && !target.validity.badInput) save(typed);
    setTyped(null);
  };
  return html`<label for=${id}>${label}</label>
    <input
      id=${id}
      ...${input}
      disabled=${value === undefined}
      value=${typed ?? value ?? ""}
      onInput=${({ target }) => setTyped(target.value)}
      onBlur=${leave}
      onKeyDown=${({ key, target }) => key === "Enter" && target.blur()}
    />`;
}

export const Failure = ({ error }) =>
  error &&
  html`<div class="alert" role="alert">
    <span class="bad">${error.line ? `line ${error.line}, column ${error.column}: ` : ""}${error.message}</span>
    ${error.hint && html`<div class="faint">${error.hint}</div>`}
  </div>`;

const UNITS = ["", "k", "M", "G", "T"];

export function short(number, unit = "") {
  if (number === null || number === undefined) return "–";
  if (number > 0 && number < 1) return `${number.toPrecision(2)}${unit && ` ${unit}`}`;
  let power = 0;
  while (Math.abs(number) >= 1000 && power < UNITS.length - 1) [number, power] = [number / 1000, power + 1];
  const digits = number !== 0 && Math.abs(number) < 10 && (power || !Number.isInteger(number)) ? 1 : 0;
  return `${number.toFixed(digits)}${power || unit ? " " : ""}${UNITS[power]}${unit}`;
}

export const percent = (part) => `${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %`;

const MAX_ROWS = 200;
const valueOf = ({ name, value }, row) => (value ? value(row) : row[name]);

// Compares two values for sorting: numbers, and texts that are numbers, by size, others as text. NULL is the greatest.
function compared(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  const [left, right] = [Number(a), Number(b)];
  if (a !== "" && b !== "" && !Number.isNaN(left) && !Number.isNaN(right)) return left - right;
  return String(a) < String(b) ? -1 : 1;
}

// A value as text; nothing for a column that a row does not have, as that of a removed row.
export const shown = (value) =>
  value === undefined
    ? ""
    : value === null
    ? html`<span class="faint">NULL</span>`
    : typeof value === "object" ? JSON.stringify(value) : String(value);

// A table that is sorted by a column. It shows the first MAX_ROWS rows until the user asks for all. A column is
// { name, title, value(row), show(row), number }. `value` is by default the field `name`; `show`, the value as text.
export function Table({ caption, columns, rows, keyOf, sortedBy }) {
  const [{ by, down }, setOrder] = useState({ by: sortedBy, down: false });
  const [most, setMost] = useState(MAX_ROWS);
  const sorted = useMemo(() => {
    const column = columns.find(({ name }) => name === by);
    return column ? [...rows].sort((a, b) => (down ? -1 : 1) * compared(valueOf(column, a), valueOf(column, b))) : rows;
  }, [rows, by, down]);
  const head = ({ name, title, number }) => html`<th
    scope="col"
    class=${number ? "number" : ""}
    aria-sort=${by === name ? (down ? "descending" : "ascending") : "none"}
  >
    <button onClick=${() => setOrder({ by: name, down: by === name ? !down : !!number })}>${title}</button>
  </th>`;
  const cell = (row) => (column) =>
    html`<td class=${column.number ? "number" : ""}>${column.show ? column.show(row) : shown(valueOf(column, row))}</td>`;
  return html`<div class="scroll">
    <table aria-label=${caption}>
      <thead><tr>${columns.map(head)}</tr></thead>
      <tbody>${sorted.slice(0, most).map((row) => html`<tr key=${keyOf(row)}>${columns.map(cell(row))}</tr>`)}</tbody>
    </table>
    ${rows.length > most &&
    html`<p>
      <span class="faint">${most} of ${rows.length}</span>${" "}
      <button class="plain" onClick=${() => setMost(Infinity)}>Show all</button>
    </p>`}
  </div>`;
}

// The rows of a statement's result. Columns may have the same title.
export function ResultTable({ caption, columns, rows }) {
  const kinds = columns.map((title, at) => ({ name: String(at), title, value: (row) => row[at] }));
  return html`<${Table} caption=${caption} columns=${kinds} rows=${rows} keyOf=${(row) => JSON.stringify(row)} />`;
}

// The 30 largest amounts as bars, the largest first. With `whole`, the amounts are parts of a total: the total and the
// percentages are shown, too.
export function Bars({ title, parts, unit, whole }) {
  const total = parts.reduce((sum, { value }) => sum + value, 0);
  const largest = Math.max(...parts.map(({ value }) => value), 1e-12);
  const first = parts.filter(({ value }) => value > 0).sort((a, b) => b.value - a.value).slice(0, 30);
  return html`<section>
    <h2>${title} <span class="faint">${whole && short(total, unit)}</span></h2>
    ${first.length === 0 && html`<p class="faint">nothing to show</p>`}
    <div class="bars" role="list">
      ${first.map(
        ({ name, href, value }) => html`<div role="listitem" key=${name} style="display: contents">
          <span>${href ? html`<a href=${href}>${name}</a>` : name}</span>
          <span class="bar" style=${{ width: `${(100 * value) / largest}%` }}></span>
          <span class="number">${short(value, unit)} <span class="faint">${whole && percent(value / total)}</span></span>
        </div>`,
      )}
    </div>
  </section>`;
}

export const queryPath = (name) => `#/queries/${encodeURIComponent(name)}`;
