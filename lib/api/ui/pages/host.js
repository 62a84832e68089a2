/* host.js: one photo host: its breaker, which can be forced, and its errors and latency over time. */
import {call, get, maybe, segment, withQuery} from "../api.js";
import {chart, dayBefore, dayChart, DAYS} from "../chart.js";
import {act, dialog} from "../main.js";
import {dayTable, errorTable} from "../shown.js";
import {button, facts, h, number, percent, put, section, state, to, when} from "../view.js";

const SAMPLES_MAX = 720;
const SPAN_S = 300; // the charts show at least so much

function forceForm(action) {
  return [h("p", null, action === "open" ? "Nothing is asked of this host, and its photos wait." : "The host is asked, whatever it answers."),
    h("label", null, "minutes (empty: until another order)", h("input", {name: "minutes", inputmode: "numeric", size: 6, value: "60"}))];
}

async function force(path, action) {
  const body = await dialog(action === "open" ? "Force the breaker open?" : "Force the breaker closed?", forceForm(action),
    action === "open" ? "Open it" : "Close it", form => {
      const minutes = form.elements.minutes.value.trim();
      return {action, ...minutes ? {for_seconds: Math.round(60 * Number(minutes))} : {}};
    });
  if (body)
    act(() => call("POST", path, body), `The breaker is forced ${action === "open" ? "open" : "closed"}.`);
}

export function open(page) {
  const [host] = page.args, order = "/v1/breakers/" + segment(host);
  const head = h("div", null), errors = h("div", null), clients = h("div", null), days = h("div", null), buttons = h("p", {class: "buttons"},
    button("Force open", () => force(order, "open"), {id: "open"}), button("Force closed", () => force(order, "close"), {id: "close"}),
    button("Let it decide", () => act(() => call("POST", order, {action: "auto"}), "The breaker decides by itself."), {id: "auto"}));
  const shares = chart(page, [["errors, %", "bad"]], "Share of errors", SPAN_S),
    latency = chart(page, [["median latency, ms", "link"]], "Latency", SPAN_S);
  const drawn = dayChart(page, "Photos of the host by day"), statistics = section("Days", drawn.box, days);
  const samples = [[], [], []];

  page.title = host;
  page.period = 5000;
  statistics.hidden = true;
  page.root.append(h("h1", null, "Host ", host), head, buttons,
    h("div", {class: "cards"}, section("Errors, while this page is open", shares.box), section("Latency, while this page is open", latency.box)),
    statistics, h("div", {class: "cards"}, section("Errors by class", errors), section("Clients that wait for it", clients)));

  page.refresh = async () => {
    const [x, stats] = await Promise.all([get("/v1/hosts/" + segment(host)),
      maybe(withQuery(`/v1/hosts/${segment(host)}/stats`, {from: dayBefore(DAYS - 1), to: dayBefore(0)}), "hosts/stats")]);
    put(head, facts([["breaker", state(x.state, x.state !== "closed")], ["forced", x.forced ? `${x.forced}` : undefined],
      ["forced until", x.forced_until ? when(x.forced_until) : undefined], ["reason", x.reason ?? undefined], ["since", when(x.since)],
      ["next probe", x.next_probe_at ? when(x.next_probe_at) : undefined], ["asked for patience until", x.slow_until ? when(x.slow_until) : undefined],
      ["errors", percent(x.error_share)], ["usual errors", percent(x.usual_error_share)], ["median, ms", number(x.latency_ms?.median)],
      ["usual, ms", number(x.latency_ms?.usual)], ["requests", number(x.requests)],
      ["waiting photos", x.waiting_photos === null ? undefined : number(x.waiting_photos)]]));
    put(errors, errorTable(x.errors));
    put(clients, x.clients?.length ? h("p", null, x.clients.map(id => [h("a", {href: to("client", id)}, id), " "])) : h("p", {class: "dim"}, "None."));
    for (const [i, value] of [Date.now() / 1000, 100 * (x.error_share ?? 0), x.latency_ms?.median ?? null].entries())
      samples[i] = [...samples[i], value].slice(-SAMPLES_MAX);
    shares.set([samples[0], samples[1]]);
    latency.set([samples[0], samples[2]]);
    statistics.hidden = !stats;
    if (stats) {
      drawn.set(stats.days);
      put(days, dayTable(stats.days));
    }
  };
}
