// The statements that were run in this tab, so that they can be run again. They are forgotten with the tab, like the
// token: their texts may hold data.

import { html } from "./vendor/preact.js";

const KEY = "dsms-statements", MOST = 50;

export const remembered = () => JSON.parse(sessionStorage.getItem(KEY) ?? "[]");

// Puts a text before the others, once, and returns all of them; null forgets them all.
export function remember(text) {
  const past = text === null ? [] : [text, ...remembered().filter((other) => other !== text)].slice(0, MOST);
  sessionStorage.setItem(KEY, JSON.stringify(past));
  return past;
}

export function History({ past, choose, clear }) {
  if (past.length === 0) return null;
  return html`<details>
    <summary>Statements that ran before (${past.length})</summary>
    <ul class="past">
      ${past.map((text) => html`<li key=${text}><button class="plain" title=${text} onClick=${() => choose(text)}>${text.replace(/\s+/g, " ")}</button></li>`)}
    </ul>
    <button class="plain" onClick=${clear}>Forget them</button>
  </details>`;
}
