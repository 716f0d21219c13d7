// Signing in with a token, or at an OIDC issuer (authorization code flow with PKCE).

import { html, useEffect, useState } from "./vendor/preact.js";
import { signIn } from "./api.js";

const KEY = "dsms-sign-in";
const base64url = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));
const redirectUri = () => `${location.origin}/console/`;

async function begin({ issuer, authorization_url, client_id, scope }) {
  const [verifier, state] = [random(), random()];
  const challenge = base64url(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
  sessionStorage.setItem(KEY, JSON.stringify({ issuer, verifier, state, place: location.hash }));
  const address = new URL(authorization_url);
  const asked = { response_type: "code", client_id, scope, redirect_uri: redirectUri(), state, code_challenge: challenge, code_challenge_method: "S256" };
  for (const [name, value] of Object.entries(asked)) address.searchParams.set(name, value);
  location.assign(address);
}

// Signs in with the token in the address that `dsms up` prints, and removes it from the address.
export function takeToken() {
  const [, given] = location.hash.match(/^#token=([\w-]+)$/) ?? [];
  if (given === undefined) return;
  history.replaceState(null, "", location.pathname);
  signIn(given);
}

// Completes signing in if an issuer has sent the browser back. Returns the reason if that fails, otherwise "".
export async function returned() {
  const answer = new URLSearchParams(location.search);
  if (!answer.has("state")) return "";
  const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  sessionStorage.removeItem(KEY);
  history.replaceState(null, "", `${location.pathname}${kept?.place ?? ""}`);
  if (kept === null || answer.get("state") !== kept.state) return "The issuer's answer does not belong to this sign-in; sign in again.";
  if (!answer.has("code")) return answer.get("error_description") ?? answer.get("error") ?? "The issuer sent no authorization code.";
  const { issuer, verifier } = kept;
  const body = JSON.stringify({ issuer, verifier, code: answer.get("code"), redirect_uri: redirectUri() });
  const response = await fetch("/console/sign-in", { method: "POST", body, headers: { "content-type": "application/json" } });
  const document = await response.json().catch(() => null);
  if (!response.ok) return document?.error?.message ?? `The coordinator answered with status ${response.status}.`;
  signIn(document.token);
  return "";
}

export function SignIn({ why }) {
  const [issuers, setIssuers] = useState([]);
  useEffect(() => void fetch("/console/sign-in").then((response) => response.json()).then(setIssuers, () => {}), []);
  const submitted = (event) => (event.preventDefault(), signIn(new FormData(event.target).get("token")));
  return html`<form onSubmit=${submitted}>
    <h1>Sign in</h1>
    <p class="bad" role="alert">${why}</p>
    ${issuers.map(
      (offer) => html`<p key=${offer.issuer}>
        <button class="plain" type="button" disabled=${!crypto.subtle} onClick=${() => begin(offer)}>Sign in at ${new URL(offer.issuer).host}</button>
        ${!crypto.subtle && html` <span class="faint">This needs HTTPS or localhost.</span>`}
      </p>`,
    )}
    <p class="faint">${issuers.length > 0 ? "Or with" : "With"} a token from <code>dsms token</code> or from your identity provider. It is kept until this tab is closed.</p>
    <div class="row">
      <label for="token">Token</label>
      <input id="token" name="token" type="password" autocomplete="off" required />
      <button class="plain">Sign in</button>
    </div>
  </form>`;
}
