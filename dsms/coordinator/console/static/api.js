// Calls of the HTTP interface, with the token of this session.

const KEY = "dsms-token";

export const token = () => sessionStorage.getItem(KEY) ?? "";

export function signIn(text) {
  sessionStorage.setItem(KEY, text.trim());
  dispatchEvent(new Event("dsms-token"));
}

export class ApiError extends Error {
  constructor(status, { message, hint, line, column }) {
    super(message);
    Object.assign(this, { status, hint, line, column });
  }
}

async function answer(path, { body, ...options } = {}) {
  const headers = { accept: options.accept ?? "application/json" };
  if (token()) headers.authorization = `Bearer ${token()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(path, { ...options, headers, body: body && JSON.stringify(body) });
  if (response.ok) return response;
  if (response.status === 401) dispatchEvent(new Event("dsms-refused"));
  const document = await response.json().catch(() => null);
  throw new ApiError(response.status, document?.error ?? { message: `the coordinator answers ${response.status}` });
}

export const get = async (path, options) => (await answer(path, options)).json();

export const statements = async (sql, signal) =>
  (await (await answer("/v1/statements", { method: "POST", body: { sql }, signal })).json()).results;

export const change = async (path, body) => (await answer(path, { method: "PATCH", body })).json();

// The lines of an answer that does not end, each as a document.
export async function* lines(path, signal) {
  const { body } = await answer(path, { signal, accept: "application/x-ndjson" });
  let rest = "";
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}

// An identifier as SQL takes it.
export const quoted = (name) => `"${name.replaceAll('"', '""')}"`;
