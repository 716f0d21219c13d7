// The page of the audit log: who changed or was refused what, the newest first.

import { html, useState } from "./vendor/preact.js";
import { Listed } from "./objects.js";

const COUNTS = [100, 1000];

export function Audit() {
  const [count, setCount] = useState(COUNTS[0]);
  return html`<article>
    <h1>Audit</h1>
    <div class="row">
      <label for="count">Entries</label>
      <select id="count" onChange=${({ target }) => setCount(Number(target.value))}>
        ${COUNTS.map((number) => html`<option value=${number} selected=${number === count}>${number}</option>`)}
      </select>
    </div>
    <${Listed} key=${count} title="The last entries, the newest first" sql=${`SHOW AUDIT LIMIT ${count}`} />
  </article>`;
}
