/* webhook.js: one webhook: pause, test, its deliveries, replay. */
import {call, get, segment, withQuery} from "../api.js";
import {act, dialog} from "../main.js";
import {button, code, facts, h, number, pager, put, section, state, table, to, when} from "../view.js";
import {stateOf} from "./webhooks.js";

const FIELDS = ["url", "clients", "statuses", "types"];
const STATUSES = ["", "pending", "delivered", "dead"];

/* A PUT replaces a webhook, but keeps its secret if it names none. */
async function setPaused(path, paused) {
  const now = await get(path);
  const kept = Object.fromEntries(FIELDS.filter(name => name in now).map(name => [name, now[name]]));
  return call("PUT", path, {...kept, paused});
}

function tested(answer) {
  return answer.delivered ? `The endpoint answered ${answer.http_status} in ${answer.ms} ms.`
    : `The test was not delivered: ${answer.error ?? "the endpoint answered " + answer.http_status}.`;
}

/* Reads a time of a form, as UTC. */
function readTime(text) {
  return text ? new Date(text + "Z").toISOString() : undefined;
}

async function replay(path) {
  const parts = [h("p", null, "Posts finished items again. Consumers drop the ids that they know."),
    h("label", null, "finished from (UTC)", h("input", {name: "from", type: "datetime-local"})),
    h("label", null, "to (UTC)", h("input", {name: "to", type: "datetime-local"})),
    h("label", null, "status", h("select", {name: "status"}, ["dead", "delivered", ""].map(s => h("option", {value: s}, s || "any"))))];
  const body = await dialog("Replay deliveries", parts, "Replay", form => {
    const {from, to, status} = form.elements;
    const all = {from: readTime(from.value), to: readTime(to.value), status: status.value || undefined};
    return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
  });
  if (body)
    act(() => call("POST", path + "/replay", body), answer => `${number(answer.messages)} messages are posted again.`);
}

const COLUMNS = [
  ["id", d => code(d.id), "wide"], ["client", d => h("a", {href: to("client", d.client)}, d.client)],
  ["item", d => d.item ? h("a", {href: to("item", d.client, d.item)}, d.item) : ""],
  ["status", d => state(d.status, d.status === "dead")], ["attempts", d => number(d.attempts), "n"], ["finished", d => when(d.finished_at)],
  ["next try", d => when(d.next_attempt_at)], ["answer", d => d.error ?? d.http_status ?? ""]];

export function open(page) {
  const [name] = page.args, path = "/v1/webhooks/" + segment(name), {query} = page;
  const head = h("div", null), buttons = h("p", {class: "buttons"}), list = h("div", null);
  const tabs = h("nav", {class: "pager tabs", "aria-label": "Deliveries"}, STATUSES.map(s =>
    h("a", {href: withQuery(to("webhook", name), {status: s}), "aria-current": s === (query.status ?? "") ? "true" : null}, s || "all")));

  page.title = name;
  page.root.append(h("h1", null, "Webhook ", name), head, buttons, section("Deliveries", tabs, list));
  const pause = paused => button(paused ? "Pause" : "Resume", () => act(() => setPaused(path, paused), paused ? "The webhook is paused." : "The webhook goes on."),
    {id: "pause"});
  page.refresh = async () => {
    const [w, {deliveries, next}] = await Promise.all([get(path), get(withQuery(path + "/deliveries", {...query, limit: 50}))]);
    put(head, facts([["state", stateOf(w)], ["URL", h("span", {class: "url"}, w.url)], ["clients", w.clients ? w.clients.join(", ") : "all"], ["statuses", w.statuses ? w.statuses.join(", ") : "all"],
      ["statuses", w.statuses ? w.statuses.join(", ") : undefined], ["types", w.types ? w.types.join(", ") : undefined],
      ["created", when(w.created_at)], ["old secret until", w.old_secret_until ? when(w.old_secret_until) : undefined]]));
    put(buttons, pause(!w.paused && !w.disabled), button("Send a test", () => act(() => call("POST", path + "/test"), tested), {id: "test"}),
      button("Replay", () => replay(path), {id: "replay"}));
    put(list, table(COLUMNS, deliveries, "No deliveries here."), pager(to("webhook", name), query, next));
  };
}
