/* client.js: a client's limits, what it uses of them now, its days and its batches. */
import {call, get, maybe, Problem, segment, send, withQuery} from "../api.js";
import {dayBefore, dayChart} from "../chart.js";
import {act} from "../main.js";
import {BATCH_COLUMNS, dayTable} from "../shown.js";
import {button, code, facts, h, notice, number, put, section, state, table} from "../view.js";
import {setting} from "./clients.js";

const FIELDS = ["rpm", "concurrency", "weight", "paused", "headers"];
const DAYS = 30;

/* Changes some settings. A server without PATCH takes all of them at once; `tag` then does not
 * matter. Else the change is refused if somebody else has changed the settings since they were
 * read. */
async function change(path, fields, tag) {
  try {
    return await call("PATCH", path, fields, tag ? {"If-Match": tag} : {});
  } catch (e) {
    if (!(e instanceof Problem) || e.status !== 405)
      throw e;
    const now = await get(path);
    return call("PUT", path, Object.fromEntries(FIELDS.map(name => [name, name in fields ? fields[name] : now[name]])));
  }
}

/* What the client's running batches have in flight, and fetch a second. */
function used(client, batches) {
  const sum = fn => batches.reduce((n, b) => n + (fn(b) ?? 0), 0);
  const known = batches.every(b => b.waiting);
  return facts([
    ["in flight", known ? `${number(sum(b => b.waiting.in_flight))} of ${number(client.concurrency)}` : undefined],
    ["photos a minute", number(60 * sum(b => b.photos_per_second))],
    ["open photos", number(sum(b => b.photos.open))]]);
}

function limitsForm(path, page) {
  const input = (name, label, more) => h("label", null, label, h("input", {name, inputmode: "numeric", size: 8, ...more}));
  const form = h("form", {class: "filter", id: "limits", onsubmit: event => {
    event.preventDefault();
    const fields = {};
    for (const name of ["rpm", "concurrency", "weight"]) {
      const text = form.elements[name].value.trim();
      if (text !== form.elements[name].defaultValue)
        fields[name] = text === "" && name === "rpm" ? null : Number(text);
    }
    if (Object.keys(fields).length > 0)
      act(async () => { await change(path, fields, page.tag); page.stale = true; }, "The limits are changed.");
  }}, input("rpm", "requests a minute (empty: no limit)"), input("concurrency", "at a time"), input("weight", "weight"),
  h("button", {type: "submit", class: "primary"}, "Save"));
  return form;
}

/* Shows the stored limits, unless the user has begun to edit them. */
function fill(form, client, page) {
  const edited = !page.stale && [...form.elements].some(e => e.name && e.value !== e.defaultValue);
  if (edited)
    return;
  for (const name of ["rpm", "concurrency", "weight"])
    form.elements[name].value = form.elements[name].defaultValue = client[name] ?? "";
  page.stale = false;
  page.tag = page.seen;
}

export function open(page) {
  const [id] = page.args, path = "/v1/clients/" + segment(id);
  const head = h("div", null), buttons = h("p", {class: "buttons"}), use = h("div", null), days = h("div", null), batches = h("div", null);
  const form = limitsForm(path, page), drawn = dayChart(page, "Photos of the client by day");
  const statistics = section("Days", drawn.box, days);

  page.title = id;
  page.stale = true;
  statistics.hidden = true;
  page.root.append(h("h1", null, "Client ", code(id)), head, buttons, section("Limits", form), section("Used now", use), statistics,
    section("Newest batches", batches));
  const set = (fields, text) => act(async () => { await change(path, fields); page.stale = true; }, text);
  const pause = paused => button(paused ? "Pause" : "Resume", () => set({paused}, paused ? "The client is paused." : "The client goes on."), {id: "pause"});

  page.refresh = async () => {
    const answer = await send("GET", path), client = await answer.json();
    page.seen = answer.headers.get("ETag");
    const [stats, list, running] = await Promise.all([
      maybe(withQuery(path + "/stats", {from: dayBefore(DAYS - 1), to: dayBefore(0)}), "clients/stats"),
      get(withQuery("/v1/batches", {client: id, limit: 10})), get(withQuery("/v1/batches", {client: id, state: "running", limit: 100}))]);
    put(head, facts([["state", client.paused ? state("paused", true) : state("active")], ["requests a minute", setting(client, "rpm")],
      ["at a time", setting(client, "concurrency")], ["weight", setting(client, "weight")],
      ["headers", Object.keys(client.headers ?? {}).length ? Object.keys(client.headers).map(name => [code(name), " "]) : undefined]]));
    put(buttons, pause(!client.paused), client.defaults && client.defaults.length < 3 ?
      button("Back to the defaults", () => set({reset: ["rpm", "concurrency", "weight"]}, "The limits are the defaults."), {id: "reset"}) : null);
    fill(form, client, page);
    put(use, running.batches.length ? used(client, running.batches) : notice("None of its batches runs."));
    put(batches, table(BATCH_COLUMNS, list.batches, "This client has no batches."));
    statistics.hidden = !stats;
    if (stats) {
      drawn.set(stats.days);
      put(days, dayTable(stats.days));
    }
  };
}
