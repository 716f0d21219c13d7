// The frame of the console: navigation, the current page, and signing in.

import { html, render, useEffect, useState } from "./vendor/preact.js";
import { signIn, token } from "./api.js";
import { Overview } from "./overview.js";
import { Query } from "./query.js";
import { Plan } from "./plan.js";
import { Sources } from "./sources.js";
import { Objects } from "./objects.js";
import { Resources } from "./resources.js";
import { Executors } from "./executors.js";
import { Audit } from "./audit.js";
import { Editor } from "./editor.js";
import { SignIn, returned, takeToken } from "./signin.js";

const PAGES = [
  ["", "Queries", Overview],
  ["plan", "Shared plan", Plan],
  ["objects", "Objects", Objects],
  ["sources", "Sources", Sources],
  ["resources", "Memory and load", Resources],
  ["executors", "Executors", Executors],
  ["audit", "Audit", Audit],
  ["sql", "SQL", Editor],
];

function place() {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return [""];
  }
}

function Console({ why }) {
  const [path, setPath] = useState(place());
  const [refused, setRefused] = useState(why || false);
  const [session, setSession] = useState(0);
  useEffect(() => {
    const heard = { hashchange: () => (takeToken(), setPath(place())), "dsms-refused": () => setRefused(token() ? "The coordinator did not accept this token." : " ") };
    heard["dsms-token"] = () => (setRefused(false), setSession((number) => number + 1));
    for (const [name, listener] of Object.entries(heard)) addEventListener(name, listener);
    return () => Object.entries(heard).forEach(([name, listener]) => removeEventListener(name, listener));
  }, []);
  const [first, name] = path;
  const known = first === "queries" && name ? ["queries", name, Query] : PAGES.find(([word]) => word === first);
  const [, title, Page] = known ?? PAGES[0];
  useEffect(() => void (document.title = `${title} · dsms`), [title]);
  const link = ([word, text]) => html`<a
    href=${`#/${word}`}
    aria-current=${word === first || (word === "" && first === "queries") ? "page" : null}
    >${text}</a
  >`;
  return html`<div>
    <header>
      <strong>dsms</strong>
      <nav aria-label="Pages">${PAGES.map(link)}</nav>
      ${token() && html`<button class="plain" onClick=${() => signIn("")}>Sign out</button>`}
    </header>
    <main>${refused ? html`<${SignIn} why=${refused} />` : html`<${Page} key=${`${session} ${path.join("/")}`} name=${name} />`}</main>
  </div>`;
}

takeToken();
const why = await returned();
render(html`<${Console} why=${why} />`, document.body);
