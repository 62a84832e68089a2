/* api.js: calls the API of this server. If the server wants a key, asks for it once and keeps it for
 * this tab (sessionStorage). A failed call throws a Problem. */

const NAME = "photopool-key";
let key = sessionStorage.getItem(NAME);
let asking = null;            // the promise of the key that the user is being asked for
let askUser = async () => null;
const absent = new Set();     // paths of optional routes that this server does not have

export class Problem extends Error {
  /* `document` is the problem document of the answer (RFC 9457), or null. */
  constructor(status, document) {
    const remedy = document?.remedy ? " " + document.remedy : "";
    super(document?.detail ? `${document.detail}.${remedy}`.replace("..", ".") : `the server answered ${status}`);
    this.status = status;
    this.code = document?.code;
    this.field = document?.field;
  }
}

/* `ask` shows a dialog, and returns a promise of the key, or of null. Its argument says why. */
export function onKeyNeeded(ask) {
  askUser = ask;
}

export function hasKey() {
  return key !== null;
}

export function forgetKey() {
  key = null;
  sessionStorage.removeItem(NAME);
}

/* All calls that need a key at the same time share one dialog. */
async function askForKey(used) {
  if (key !== used)
    return key !== null;
  asking ??= askUser(used === null ? "" : "The server does not know this key.").finally(() => { asking = null; });
  const given = await asking;
  if (!given)
    return false;
  key = given;
  sessionStorage.setItem(NAME, key);
  return true;
}

function request(method, path, body, headers) {
  const all = {Accept: "application/json", ...headers};
  if (key !== null)
    all.Authorization = "Bearer " + key;
  if (body !== undefined)
    all["Content-Type"] = "application/json";
  return fetch(path, {method, headers: all, body: body === undefined ? undefined : JSON.stringify(body)});
}

/* Sends a request, and returns the whole answer. */
export async function send(method, path, body, headers) {
  for (;;) {
    const used = key;
    let answer;
    try {
      answer = await request(method, path, body, headers);
    } catch {
      throw new Problem(0, {detail: "the server does not answer"});
    }
    if (answer.status === 401 && await askForKey(used))
      continue;
    if (answer.ok)
      return answer;
    const text = await answer.text();
    let document = null;
    try {
      document = JSON.parse(text);
    } catch { /* a proxy has answered */ }
    throw new Problem(answer.status, document);
  }
}

export async function call(method, path, body, headers) {
  const answer = await send(method, path, body, headers);
  return answer.status === 204 ? null : answer.json();
}

export function get(path) {
  return call("GET", path);
}

/* As get(), but null if this server has no such route or thing. A route that is absent is not asked
 * for again; `route` is its name. */
export async function maybe(path, route = path.split("?")[0]) {
  if (absent.has(route))
    return null;
  try {
    return await get(path);
  } catch (e) {
    if (!(e instanceof Problem) || (e.status !== 404 && e.status !== 405))
      throw e;
    if (e.status === 405 || e.message.startsWith("there is nothing at this path"))
      absent.add(route);
    return null;
  }
}

/* Builds a path with a query of the values that are set. */
export function withQuery(path, values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values))
    if (value !== undefined && value !== null && value !== "")
      query.set(name, value);
  return query.size ? `${path}?${query}` : path;
}

export const segment = encodeURIComponent;
