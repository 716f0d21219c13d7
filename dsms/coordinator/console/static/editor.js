// The SQL page: an editor for statements that completes words and selects the location of an error.

import { html, useRef, useState } from "./vendor/preact.js";
import { quoted, statements } from "./api.js";
import { saveCsv, saveJson } from "./export.js";
import { Failure, ResultTable, usePolled } from "./parts.js";
import { History, remember, remembered } from "./statement_history.js";

const WORDS = (
  "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN LEFT FULL ASOF ON AS AND OR NOT NULL CREATE STREAMED VIEW QUERY STREAM OVER KEY " +
  "SOURCE REGISTER TAGGED NONE FORMAT JSON AVRO TIMESTAMP SLACK IDLE AFTER TABLE PRIMARY INSERT INTO VALUES UPDATE SET DELETE DROP SHOW " +
  "QUERIES VIEWS SOURCES STREAMS TABLES OPERATORS DESCRIBE EXPLAIN ANALYZE PAUSE RESUME REPLAY ALTER WITH COUNT SUM AVG MIN MAX MEDIAN DISTINCT " +
  "TUMBLE HOP SESSION DESCRIPTOR RANGE ROWS PARTITION EMIT FINAL UNION EXCEPT INTERSECT CASE WHEN THEN ELSE END MATCH_RECOGNIZE"
).split(" ");

export function Editor() {
  const area = useRef(null);
  const [sql, setSql] = useState(sessionStorage.getItem("dsms-sql") ?? "SHOW QUERIES");
  const [outcome, setOutcome] = useState({});
  const [word, setWord] = useState({ text: "", choice: 0 });
  const [past, setPast] = useState(remembered());
  const streams = usePolled("/v1/streams", 10), queries = usePolled("/v1/queries", 10);
  const known = [...(streams.data ?? []), ...(queries.data ?? [])].flatMap(({ name, columns }) => [name, ...(columns ?? []).map((column) => column.name)]);
  const choices = word.closed ? [] : completions(word.text, known);
  const run = async () => {
    if (outcome.running) return;
    setOutcome({ running: true });
    setPast(remember(sql));
    try {
      setOutcome({ results: await statements(sql) });
    } catch (error) {
      setOutcome({ error });
      if (error.line) mark(area.current, sql, error);
    }
  };
  const complete = (choice) => {
    const at = area.current.selectionStart, start = at - wordBefore(area.current).length;
    area.current.setRangeText(/^[a-z_]\w*$/i.test(choice) ? choice : quoted(choice), start, at, "end");
    changed();
    area.current.focus();
  };
  const write = (text) => {
    setSql(text);
    sessionStorage.setItem("dsms-sql", text);
  };
  const changed = () => (write(area.current.value), moved());
  const moved = () => {
    const text = wordBefore(area.current);
    if (text !== word.text) setWord({ text, choice: 0 });
  };
  const pressed = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) (event.preventDefault(), run());
    else if (event.key === "Escape") setWord({ ...word, closed: true });
    else if (choices.length && event.key === "Tab" && !event.shiftKey) (event.preventDefault(), complete(choices[word.choice]));
    else if (choices.length && event.altKey && event.key === "ArrowDown") setWord({ ...word, choice: (word.choice + 1) % choices.length });
  };
  return html`<article>
    <h1>SQL</h1>
    <label for="sql" class="faint">Statements, separated by semicolons. Ctrl+Enter runs them. Tab completes a word; after Escape, it leaves the field.</label>
    <textarea id="sql" ref=${area} spellcheck=${false} value=${sql} onInput=${changed} onClick=${moved} onKeyUp=${moved} onKeyDown=${pressed}></textarea>
    <ul class="completions" aria-label="Completions">
      ${choices.map((choice, at) => html`<li><button class="plain" aria-selected=${at === word.choice} tabindex="-1" onClick=${() => complete(choice)}>${choice}</button></li>`)}
    </ul>
    <div class="row"><button class="plain" onClick=${run} disabled=${outcome.running}>Run</button></div>
    <${History} past=${past} choose=${(text) => (write(text), area.current.focus())} clear=${() => setPast(remember(null))} />
    <${Failure} error=${outcome.error} />
    ${(outcome.results ?? []).map((result) => html`<${Outcome} result=${result} />`)}
  </article>`;
}

// What may complete a word: names and keywords. A word in capitals is a keyword rather than a name.
function completions(text, names) {
  if (text.length < 2) return [];
  const capitals = text === text.toUpperCase(), keywords = capitals ? WORDS : WORDS.map((word) => word.toLowerCase());
  const all = new Set(capitals ? [...keywords, ...names] : [...names, ...keywords]);
  return [...all].filter((choice) => choice.toLowerCase().startsWith(text.toLowerCase()) && choice !== text).slice(0, 8);
}

function Outcome({ result }) {
  return html`<section aria-label=${result.statement}>
    <h2>${result.message}</h2>
    ${result.notices.map((notice) => html`<p class="faint">${notice}</p>`)}
    ${result.columns.length > 0 && html`<div class="row">
      <button class="plain" onClick=${() => saveCsv(result)}>Save as CSV</button>
      <button class="plain" onClick=${() => saveJson(result)}>Save as JSON</button>
    </div>
    <${ResultTable} caption=${result.statement} columns=${result.columns} rows=${result.rows} />`}
  </section>`;
}

const wordBefore = ({ value, selectionStart }) => /\w*$/.exec(value.slice(0, selectionStart))[0];

// Selects the location of an error in the text: from its line and column to the end of the word.
function mark(area, sql, { line, column }) {
  const start = sql.split("\n").slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0) + column - 1;
  const [word] = /^(\w+|.)?/.exec(sql.slice(start));
  area.focus();
  area.setSelectionRange(start, start + word.length);
}
