// Calls the HTTP interface with the token of this session.

const KEY = "dsms-token";

export const token = () => sessionStorage.getItem(KEY) ?? "";

export function signIn(text) {
  if (text.trim()) sessionStorage.setItem(KEY, text.trim());
  else sessionStorage.clear();
  dispatchEvent(new Event("dsms-token"));
}

export class ApiError extends Error {
  constructor(status, { message, hint, line, column }) {
    super(message);
    Object.assign(this, { status, hint, line, column });
  }
}

// The response; an error that a user understands if none comes.
async function sent(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { message: "the coordinator does not answer", hint: "it may be restarting; the page asks again by itself" });
  }
}

async function answer(path, { body, ...options } = {}) {
  const headers = { accept: options.accept ?? "application/json" };
  if (token()) headers.authorization = `Bearer ${token()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await sent(path, { ...options, headers, body: body && JSON.stringify(body) });
  if (response.ok) return response;
  if (response.status === 401) dispatchEvent(new Event("dsms-refused"));
  const document = await response.json().catch(() => null);
  throw new ApiError(response.status, document?.error ?? { message: `the coordinator answered with status ${response.status}` });
}

// Parses JSON. Integers that a JavaScript number cannot represent exactly become text, as they are written.
export const parsed = (text) =>
  JSON.parse(text, (_, value, context) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) ? (context?.source ?? value) : value,
  );

const document_ = async (response) => parsed(await response.text());

export const get = async (path, options) => document_(await answer(path, options));

export const statements = async (sql, signal) =>
  (await document_(await answer("/v1/statements", { method: "POST", body: { sql }, signal }))).results;

export const change = async (path, body) => document_(await answer(path, { method: "PATCH", body }));

// Yields the documents of a streaming response, one per line: an array for each chunk that completes some.
export async function* lines(path, signal) {
  const { body } = await answer(path, { signal, accept: "application/x-ndjson" });
  let rest = "";
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    const documents = parts.filter(Boolean).map(parsed);
    if (documents.length > 0) yield documents;
  }
}

// A text as an SQL string literal.
export const literal = (text) => `'${text.replaceAll("'", "''")}'`;

// A name as a quoted SQL identifier.
export const quoted = (name) => `"${name.replaceAll('"', '""')}"`;
