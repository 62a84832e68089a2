/* client.js: a client's limits, what it uses of them now, its days and its batches. */
import {get, maybe, Problem, segment, send, withQuery} from "../api.js";
import {dayBefore, dayChart, DAYS} from "../chart.js";
import {act} from "../main.js";
import {BATCH_COLUMNS, dayTable} from "../shown.js";
import {button, code, facts, h, notice, number, put, section, state, table} from "../view.js";
import {setting} from "./clients.js";

const FIELDS = ["rpm", "concurrency", "weight", "paused", "headers"];

/* Changes some settings, and returns the ETag of the new ones. A change of limits is refused if
 * somebody else has changed the settings since they were read, which had the ETag `tag`. A server
 * without PATCH takes all settings at once. */
async function change(path, fields, tag) {
  try {
    return (await send("PATCH", path, fields, tag ? {"If-Match": tag} : {})).headers.get("ETag");
  } catch (e) {
    if (!(e instanceof Problem) || e.status !== 405)
      throw e;
  }
  const now = await get(path);
  const all = Object.fromEntries(FIELDS.map(name => [name, name in fields ? fields[name] : now[name]]));
  return (await send("PUT", path, all)).headers.get("ETag");
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

const LIMITS = ["rpm", "concurrency", "weight"];

/* The limits that the user has edited. */
function edited(form) {
  const inputs = LIMITS.map(name => form.elements[name]).filter(input => input.value.trim() !== input.defaultValue);
  return Object.fromEntries(inputs.map(({name, value}) => [name, value.trim() === "" && name === "rpm" ? null : /^\d+$/.test(value.trim()) ? Number(value) : value]));
}

function limitsForm(path, page) {
  const input = (name, label) => h("label", null, label, h("input", {name, inputmode: "numeric", size: 8}));
  const form = h("form", {class: "filter", id: "limits", onsubmit: event => {
    event.preventDefault();
    const fields = edited(form);
    if (Object.keys(fields).length > 0)
      act(async () => {
        page.tag = await change(path, fields, page.tag);
        for (const name of LIMITS)
          form.elements[name].defaultValue = form.elements[name].value;
      }, "The limits are changed.");
  }}, input("rpm", "requests a minute (empty: no limit)"), input("concurrency", "at a time"), input("weight", "weight"),
  h("button", {type: "submit", class: "primary"}, "Save"));
  return form;
}

/* Shows the stored limits, unless the user has begun to edit them. */
function fill(form, client, page, tag) {
  if (Object.keys(edited(form)).length > 0)
    return;
  for (const name of LIMITS)
    form.elements[name].value = form.elements[name].defaultValue = client[name] ?? "";
  page.tag = tag;
}

export function open(page) {
  const [id] = page.args, path = "/v1/clients/" + segment(id);
  const head = h("div", null), buttons = h("p", {class: "buttons"}), use = h("div", null), days = h("div", null), batches = h("div", null);
  const form = limitsForm(path, page), drawn = dayChart(page, "Photos of the client by day");
  const statistics = section("Days", drawn.box, days);

  page.title = id;
  statistics.hidden = true;
  page.root.append(h("h1", null, "Client ", code(id)), head, buttons, section("Limits", form), section("Used now", use), statistics,
    section("Newest batches", batches));
  const set = (fields, text) => act(async () => { page.tag = await change(path, fields); }, text);
  const pause = paused => button(paused ? "Pause" : "Resume", () => set({paused}, paused ? "The client is paused." : "The client goes on."), {id: "pause"});

  page.refresh = async () => {
    const answer = await send("GET", path), client = await answer.json();
    const [stats, list, running] = await Promise.all([
      maybe(withQuery(path + "/stats", {from: dayBefore(DAYS - 1), to: dayBefore(0)}), "clients/stats"),
      get(withQuery("/v1/batches", {client: id, limit: 10})), get(withQuery("/v1/batches", {client: id, state: "running", limit: 100}))]);
    put(head, facts([["state", client.paused ? state("paused", true) : state("active")], ["requests a minute", setting(client, "rpm")],
      ["at a time", setting(client, "concurrency")], ["weight", setting(client, "weight")],
      ["headers", Object.keys(client.headers ?? {}).length ? Object.keys(client.headers).map(name => [code(name), " "]) : undefined]]));
    put(buttons, pause(!client.paused), client.defaults && !LIMITS.every(name => client.defaults.includes(name)) ?
      button("Back to the defaults", () => { form.reset(); set({reset: LIMITS}, "The limits are the defaults."); }, {id: "reset"}) : null);
    fill(form, client, page, answer.headers.get("ETag"));
    put(use, running.batches.length ? used(client, running.batches) : notice("None of its batches runs."));
    put(batches, table(BATCH_COLUMNS, list.batches, "This client has no batches."));
    statistics.hidden = !stats;
    if (stats) {
      drawn.set(stats.days);
      put(days, dayTable(stats.days));
    }
  };
}
