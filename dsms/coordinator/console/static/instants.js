// Instants as people read them. Those of sources with times are milliseconds since 1970; others are small numbers.

import { html } from "./vendor/preact.js";

// Numbers from March 1973 on are taken for times.
const FIRST_TIME_MS = 1e11, LAST_TIME_MS = 8.64e15;

const isTime = (instant) => Math.abs(Number(instant)) >= FIRST_TIME_MS && Math.abs(Number(instant)) <= LAST_TIME_MS;

// The text of an instant: a time in UTC, or the number.
export const instantText = (instant) =>
  instant === null || instant === undefined ? "–" : isTime(instant) ? new Date(Number(instant)).toISOString().replace(".000Z", "Z") : String(instant);

// The same for a page; the number is its title.
export const Instant = ({ at }) =>
  isTime(at) ? html`<time datetime=${instantText(at)} title=${String(at)}>${instantText(at)}</time>` : html`<span>${instantText(at)}</span>`;
