/* hosts.js: the photo hosts: breakers, errors and latency. */
import {get, withQuery} from "../api.js";
import {h, number, pager, percent, put, state, table, to, when} from "../view.js";

const choose = (name, values, chosen) => h("select", {name}, values.map(v => h("option", {value: v, selected: v === chosen}, v || "any")));

export function open(page) {
  const query = {sort: "errors", ...page.query}, box = h("div", null);
  const filter = h("form", {class: "filter", onsubmit: event => {
    event.preventDefault();
    const {q, state, sort} = filter.elements;
    location.hash = withQuery("#/hosts", {q: q.value.trim(), state: state.value, sort: sort.value});
  }},
  h("label", null, "begins with", h("input", {name: "q", type: "search", value: query.q ?? ""})),
  h("label", null, "breaker", choose("state", ["", "closed", "open", "half_open"], query.state ?? "")),
  h("label", null, "most", choose("sort", ["errors", "requests", "latency"], query.sort)),
  h("button", {type: "submit"}, "Show"));

  page.title = "Hosts";
  page.root.append(h("h1", null, "Hosts"), filter, box);
  page.refresh = async () => {
    const {hosts, next} = await get(withQuery("/v1/hosts", {...query, limit: 50}));
    put(box, table([
      ["host", x => h("a", {href: to("host", x.host)}, x.host), "wide"],
      ["breaker", x => state((x.forced ? "forced " : "") + x.state, x.state !== "closed")],
      ["reason", x => x.reason ?? ""],
      ["errors", x => h("span", {class: x.error_share > 0.35 ? "bad" : null}, percent(x.error_share)), "n"],
      ["usual", x => percent(x.usual_error_share), "n"],
      ["median, ms", x => number(x.latency_ms?.median), "n"],
      ["requests", x => number(x.requests), "n"],
      ["since", x => when(x.since)]], hosts, "This process has heard of no such host."), pager("#/hosts", query, next));
  };
}
