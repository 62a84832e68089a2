/* clients.js: the clients that have settings or batches. */
import {get, Problem, withQuery} from "../api.js";
import {h, number, pager, put, state, table, to} from "../view.js";

/* A value, marked if it is the default. */
export function setting(client, name) {
  const value = client[name] === null ? "no limit" : number(client[name]);
  return client.defaults?.includes(name) ? [value, h("span", {class: "dim"}, " (default)")] : value;
}

/* Servers that can't filter clients answer bad_parameter: then filters the first 1000 here. */
async function list({q, paused, after}) {
  try {
    return await get(withQuery("/v1/clients", {q, paused, after, limit: 100}));
  } catch (e) {
    if (!(e instanceof Problem) || e.code !== "bad_parameter")
      throw e;
    const {clients} = await get("/v1/clients?limit=1000");
    return {clients: clients.filter(c => c.client.startsWith(q ?? "") && (!paused || String(c.paused) === paused)), next: null};
  }
}

export function open(page) {
  const {query} = page, box = h("div", null);
  const filter = h("form", {class: "filter", onsubmit: event => {
    event.preventDefault();
    location.hash = withQuery("#/clients", {q: filter.elements.q.value.trim(), paused: filter.elements.paused.checked ? "true" : ""});
  }},
  h("label", null, "begins with", h("input", {name: "q", type: "search", value: query.q ?? ""})),
  h("label", null, h("input", {name: "paused", type: "checkbox", checked: query.paused === "true"}), " paused"),
  h("button", {type: "submit"}, "Show"));
  const find = h("form", {class: "filter", onsubmit: event => {
    event.preventDefault();
    location.hash = to("client", find.elements.client.value.trim());
  }},
  h("label", null, "client", h("input", {name: "client", required: true, pattern: "[A-Za-z0-9_\\-]{1,64}"})), h("button", {type: "submit"}, "Open"));

  page.title = "Clients";
  page.root.append(h("h1", null, "Clients"), filter, box, h("h2", null, "Any client"), find);
  page.refresh = async () => {
    const {clients, next} = await list(query);
    put(box, table([
      ["client", c => h("a", {href: to("client", c.client)}, c.client)],
      ["state", c => c.paused ? state("paused", true) : state("active")],
      ["requests a minute", c => setting(c, "rpm"), "n"], ["at a time", c => setting(c, "concurrency"), "n"],
      ["weight", c => setting(c, "weight"), "n"]], clients, "No client has settings or batches."), pager("#/clients", query, next));
  };
}
