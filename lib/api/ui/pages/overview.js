/* overview.js: what happens now: throughput, what waits and why, hosts in trouble, workers. */
import {call, get, hasKey, maybe, segment, send} from "../api.js";
import {chart, dayBefore} from "../chart.js";
import {act, confirmed} from "../main.js";
import {BATCH_COLUMNS, firstBatch, waitingTable} from "../shown.js";
import {button, duration, facts, h, notice, number, percent, put, section, state, table, to, when} from "../view.js";

const HOUR_MS = 3600000;
const SAMPLES = "photopool-samples";
const TROUBLE = 10;  // hosts shown
const ASIDE = 10;    // batches shown that are set aside

/* --- the last hour ---
 *
 * The server counts outcomes; this page samples the counts, and keeps the samples of the last hour in
 * the browser (localStorage). A sample is [time in ms, photos stored, photos failed], counted since `from`. */

function readSamples() {
  try {
    const kept = JSON.parse(localStorage.getItem(SAMPLES));
    return kept && Array.isArray(kept.rows) ? kept : {from: dayBefore(0), rows: []};
  } catch {
    return {from: dayBefore(0), rows: []};
  }
}

/* Reads a process's own counts, for servers without statistics. */
async function readMetrics() {
  const sums = {stored: 0, failed: 0};
  const text = await (await send("GET", "/metrics", undefined, {Accept: "text/plain"})).text();
  const found = [...text.matchAll(/^photopool_photos_total\{[^}]*outcome="(\w+)"[^}]*\} (\S+)/gm)];
  for (const [, outcome, n] of found)
    if (outcome in sums)
      sums[outcome] += Number(n);
  return found.length ? sums : null;
}

async function count(from) {
  const stats = await maybe(`/v1/stats?from=${from}`, "stats");
  return stats ? stats.total : readMetrics();
}

async function sample() {
  const kept = readSamples();
  const now = await count(kept.from);
  if (now) {
    const last = kept.rows.at(-1);
    if (last && (now.stored < last[1] || now.failed < last[2]))
      kept.rows = []; // another server, or one that has started again
    kept.rows.push([Date.now(), now.stored, now.failed]);
    kept.rows = kept.rows.filter(([at]) => at > Date.now() - HOUR_MS);
    localStorage.setItem(SAMPLES, JSON.stringify(kept));
  }
  return kept.rows;
}

/* Photos a second between two samples each. */
function rates(rows) {
  const data = [[], [], []];
  for (let i = 1; i < rows.length; i++) {
    const seconds = Math.max((rows[i][0] - rows[i - 1][0]) / 1000, 0.001);
    data[0].push(rows[i][0] / 1000);
    data[1].push((rows[i][1] - rows[i - 1][1]) / seconds);
    data[2].push((rows[i][2] - rows[i - 1][2]) / seconds);
  }
  return data;
}

/* --- parts --- */

function empty() {
  const text = h("pre", {tabindex: "0"}, firstBatch(hasKey()));
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      copy.textContent = "Copied";
    } catch { // a page that is not served over TLS may not use the clipboard
      getSelection().selectAllChildren(text);
    }
  });
  return section("Nothing has been imported yet", h("p", null, "Post a first batch. This one asks for one photo of one item of the client 42:"),
    text, h("p", null, copy));
}

function waiting(queue) {
  const open = queue.open.filter(o => o.photos > 0);
  const old = [["waiting for a place", open.reduce((sum, o) => sum + o.photos, 0)], ["in_flight", queue.claimed ?? 0]];
  return [queue.waiting ? waitingTable(queue.waiting) : waitingTable(Object.fromEntries(old)),
    facts([["accepted, not planned", number(queue.ingest.photos) + " photos"],
      ["oldest of these", queue.ingest.photos > 0 ? duration(queue.ingest.oldest_seconds) : undefined],
      ["set aside", queue.ingest.set_aside || undefined],
      ...open.map(o => [o.suspect ? "suspects" : `tier ${o.tier} s`, `${number(o.photos)}, oldest ${duration(o.oldest_seconds)}`])])];
}

function sinks(queue) {
  const rows = queue.outbox.filter(o => o.messages > 0);
  return rows.length ? [h("h3", null, "Results not yet delivered"), table([
    ["sink", o => o.sink], ["messages", o => number(o.messages), "n"], ["oldest", o => duration(o.oldest_seconds), "n"]], rows, "")] : null;
}

/* --- batches that could not be planned --- */

function putBack(id, action, done) {
  return act(() => call("POST", "/v1/queue/set-aside/" + segment(id), {action}), done);
}

async function fail(entry) {
  const text = `Each of its ${number(entry.items)} items gets a result in which every photo fails with "internal". Items that can't be read get none.`;
  if (await confirmed("Fail this batch?", text, "Fail it"))
    putBack(entry.id, "fail", "The batch's items fail.");
}

const ASIDE_COLUMNS = [
  ["batch", e => h("a", {href: to("batch", e.batch_id)}, e.batch_id)], ["client", e => h("a", {href: to("client", e.client)}, e.client)],
  ["items", e => number(e.items), "n"], ["photos", e => number(e.photos), "n"], ["since", e => when(e.since)], ["why", e => e.error, "wide"],
  ["", e => h("span", {class: "buttons"}, button("Retry", () => putBack(e.id, "retry", "The batch is planned again."), {class: "retry"}),
    button("Fail", () => fail(e), {class: "fail"}))]];

function aside(answer) {
  return section("Batches that could not be planned", table(ASIDE_COLUMNS, answer.set_aside, ""),
    answer.next ? notice("There are more: photopool queue set-aside") : null);
}

function hosts(list) {
  return table([
    ["host", x => h("a", {href: to("host", x.host)}, x.host)],
    ["state", x => state((x.forced ? "forced " : "") + x.state, x.state !== "closed")],
    ["reason", x => x.reason ?? ""],
    ["errors", x => percent(x.error_share), "n"]], list.slice(0, TROUBLE), "No breaker is open.");
}

function workers(list) {
  const sum = name => list.reduce((n, w) => n + w[name], 0);
  return facts([["workers", number(list.length)], ["in flight", `${number(sum("in_flight"))} of ${number(sum("capacity"))}`],
    ["draining", list.filter(w => w.draining).length || undefined]]);
}

/* A part whose answer a key may be refused; the others are shown without it. */
async function part(box, path, show) {
  try {
    put(box, show(await get(path)));
  } catch (e) {
    if (e.status !== 403)
      throw e;
    put(box, notice("This key may not see this."));
  }
}

export function open(page) {
  const boxes = Object.fromEntries(["first", "aside", "now", "waiting", "hosts", "workers", "running"].map(id => [id, h("div", {id})]));
  const drawn = chart(page, [["stored a second", "good"], ["failed a second", "bad"]], "Photos stored and failed a second", HOUR_MS / 1000);

  page.title = "Overview";
  page.root.append(h("h1", null, "Overview"), boxes.first, boxes.aside,
    section("The last hour", boxes.now, drawn.box),
    h("div", {class: "cards"}, section("What waits, and why", boxes.waiting),
      h("div", null, section("Hosts in trouble", boxes.hosts), section("Workers", boxes.workers))),
    section("Running batches", boxes.running));

  const showRates = async () => {
    const rows = await sample().catch(e => { if (e.status !== 403) throw e; return []; });
    const data = rates(rows);
    const last = i => number(data[i].at(-1), 1);
    drawn.set(data);
    put(boxes.now, data[0].length ? h("p", null, h("span", {class: "big good"}, last(1)), " stored and ",
      h("span", {class: "big bad"}, last(2)), ` failed a second. This browser has watched for ${duration((rows.at(-1)[0] - rows[0][0]) / 1000)} of the last hour.`)
      : notice("This browser watches from now on; the first figures come in some seconds."));
  };
  const showQueue = async () => {
    let some = false;
    await part(boxes.waiting, "/v1/queue", queue => {
      some = queue.ingest.set_aside > 0;
      return [waiting(queue), sinks(queue)];
    });
    if (some)
      await part(boxes.aside, `/v1/queue/set-aside?limit=${ASIDE}`, answer => answer.set_aside.length ? aside(answer) : null);
    else
      put(boxes.aside, null);
  };
  page.refresh = async () => {
    await Promise.all([
      showRates(),
      showQueue(),
      part(boxes.hosts, "/v1/breakers?limit=10", answer => hosts(answer.breakers)),
      part(boxes.workers, "/v1/workers?limit=1000", answer => workers(answer.workers)),
      part(boxes.running, "/v1/batches?limit=10", answer => {
        put(boxes.first, answer.batches.length === 0 ? empty() : null);
        const running = answer.batches.filter(b => b.state === "running" || b.state === "accepted");
        return [table(BATCH_COLUMNS, running, "None of the newest batches runs."), h("p", null, h("a", {href: "#/batches"}, "All batches"))];
      })]);
  };
}
