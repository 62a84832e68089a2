/* shown.js: parts that several pages show: batches, what waits and why, days, errors by code. */
import {bar, code, h, legend, notice, number, parts, state, table, to, duration, when} from "./view.js";

export const BATCH_COLUMNS = [
  ["batch", b => h("a", {href: to("batch", b.batch_id)}, b.label || code(b.batch_id))],
  ["client", b => h("a", {href: to("client", b.client)}, b.client)],
  ["state", b => [state(b.state), b.items.rejected > 0 ? h("span", {class: "bad"}, ` ${number(b.items.rejected)} rejected`) : null]],
  ["photos", b => [bar(parts(b.photos)), failedOf(b)], "wide"],
  ["total", b => number(b.photos.total), "n"],
  ["failed", b => h("span", {class: b.photos.failed > 0 ? "bad" : null}, number(b.photos.failed)), "n"],
  ["created", b => when(b.created_at)],
  ["left", b => b.state === "running" ? leftOf(b) : "", "n"]];

function leftOf(b) {
  return b.eta_seconds === null || b.eta_seconds === undefined ? "?" : "≈ " + duration(b.eta_seconds);
}

/* The most frequent codes of a batch's failures. */
function failedOf(b) {
  const worst = Object.entries(b.errors ?? {}).sort((x, y) => y[1] - x[1]).slice(0, 3);
  return worst.length ? h("span", {class: "bad"}, worst.map(([name, n]) => `${number(n)} ${name}`).join(", ")) : null;
}

const WHY = {
  queued: "next in line", in_flight: "being fetched", limit: "the client's limit is used up", paused: "the client is paused",
  retry: "an attempt failed, the next one has its time", host: "the host's breaker is open, or the host asked for patience",
  unserved: "no live worker serves the tier"};

/* Why open photos are open; `waiting` is as in GET /v1/batches/{id}. */
export function waitingTable(waiting) {
  const rows = Object.entries(waiting).filter(([, n]) => n > 0);
  return [bar(rows), table([
    ["reason", ([name]) => [h("i", {class: "swatch " + name}), code(name)]],
    ["", ([name]) => WHY[name] ?? ""],
    ["photos", ([, n]) => number(n), "n"]], rows, "Nothing waits.")];
}

/* Failures by code; href(code) is where a code leads. */
export function errorTable(errors, href) {
  const rows = Object.entries(errors ?? {}).sort((a, b) => b[1] - a[1]);
  return table([
    ["code", ([name]) => href ? h("a", {href: href(name)}, code(name)) : code(name)],
    ["photos", ([, n]) => h("span", {class: "bad"}, number(n)), "n"]], rows, "No failures.");
}

/* The days of GET .../stats. */
export function dayTable(days) {
  const column = name => [name, d => number(d[name]), "n"];
  return table([["day (UTC)", d => d.day], column("batches"), column("items"), column("requests"), column("stored"), column("unchanged"),
    column("skipped"), ["failed", d => h("span", {class: d.failed > 0 ? "bad" : null}, number(d.failed)), "n"], column("cancelled")],
  [...days].reverse(), "Nothing on these days.");
}

export function outcomes(photos) {
  return [bar(parts(photos)), legend([...parts(photos)]), notice(`${number(photos.total)} photos in all.`)];
}

/* A batch that nobody has to write by hand, to begin with. */
export function firstBatch(hasKey) {
  const key = hasKey ? ' -H "Authorization: Bearer $PHOTOPOOL_KEY"' : "";
  return `curl ${location.origin}/v1/batches -H 'Content-Type: application/json'${key} -d '{"client": "42", "items": [` +
    `{"id": "ad-1", "photos": ["https://www.gstatic.com/webp/gallery/1.jpg"]}]}'`;
}
