/* batch.js: one batch: outcomes, failures by code, why photos wait, its photos; cancel and replay. */
import {call, get, maybe, segment, withQuery} from "../api.js";
import {act, confirmed, dialog} from "../main.js";
import {PHOTO_COLUMNS, photoRows} from "../photos.js";
import {errorTable, outcomes, waitingTable} from "../shown.js";
import {button, code, duration, facts, h, notice, number, pager, put, section, state, table, to, when} from "../view.js";

const ITEM = ["item", row => h("a", {href: to("item", row.client, row.item)}, row.item)];
const TABS = ["failed", "partial", "complete", "superseded", "cancelled", "rejected", "open", "all"];

/* --- replay: first says what it would do --- */

function replayForm(errors) {
  return [h("p", null, "Fetches the photos that have failed again, as a new batch. Nothing is chosen: all of them."),
    h("fieldset", null, Object.entries(errors).map(([name, n]) => h("label", {class: "check"},
      h("input", {type: "checkbox", name: "code", value: name}), ` ${name} (${number(n)})`))),
    h("label", null, "only these hosts, with blanks between them", h("input", {name: "domains", size: 30})),
    h("p", {class: "preview", role: "status"})];
}

function replayBody(form) {
  const codes = [...form.querySelectorAll("[name=code]:checked")].map(box => box.value);
  const domains = form.elements.domains.value.split(/[\s,]+/).filter(Boolean);
  return {...codes.length ? {codes} : {}, ...domains.length ? {domains} : {}};
}

async function replay(path, errors) {
  let shown = null; // the body whose preview is shown
  return dialog("Replay the failures", replayForm(errors), "Preview", async form => {
    const body = replayBody(form), preview = form.querySelector(".preview"), yes = form.querySelector("[type=submit]");
    if (shown === JSON.stringify(body))
      return call("POST", path, body);
    const {photos, not_replayed: not} = await call("POST", path, {...body, dry_run: true});
    const rest = Object.entries(not ?? {}).map(([why, n]) => `${number(n)} not: ${why.replaceAll("_", " ")}`);
    preview.textContent = [`${number(photos)} photos would be fetched again.`, ...rest].join(" ");
    shown = photos > 0 ? JSON.stringify(body) : null;
    yes.textContent = photos > 0 ? `Replay ${number(photos)} photos` : "Preview";
    form.onchange = () => { shown = null; preview.textContent = ""; yes.textContent = "Preview"; };
    return undefined;
  });
}

/* --- its items --- */

function firstTab(batch) {
  return ["failed", "partial", "open"].find(name => batch.items[name] > 0) ?? "all";
}

function rejectedTable(list) {
  return table([["index", r => r.index, "n"], ["item", r => r.id === null || r.id === undefined ? "" : String(r.id)], ["code", r => code(r.code)],
    ["field", r => r.field ?? ""], ["detail", r => r.detail ?? "", "wide"]], list, "Nothing was rejected.");
}

/* The open items of the client that belong to this batch. */
async function openItems(batch) {
  const answer = await maybe(withQuery("/v1/items", {client: batch.client, status: "open", limit: 200}), "items");
  if (!answer)
    return notice("This server does not list open items.");
  const own = answer.items.filter(item => item.batch_id === batch.batch_id);
  return [table([ITEM, ...PHOTO_COLUMNS], photoRows(own).filter(row => row.photo.outcome === "open"), "None of the client's first open items is of this batch."),
    answer.next ? notice("The client has more open items than these.") : null];
}

async function items(path, batch, tab, {code: only, after}) {
  if (tab === "open")
    return openItems(batch);
  if (tab === "rejected") {
    const {rejected, next} = await get(withQuery(path + "/rejected", {after, limit: 100}));
    return [rejectedTable(rejected), pager(to("batch", batch.batch_id), {show: tab, ...after ? {after} : {}}, next)];
  }
  const {results, next} = await get(withQuery(path + "/results", {status: tab === "all" ? null : tab, code: only, after, limit: 50}));
  const rows = photoRows(results).filter(row => !only || row.photo.error?.code === only);
  return [only ? h("p", null, "Only ", code(only), ". ", h("a", {href: to("batch", batch.batch_id)}, "Show all")) : null,
    table([ITEM, ...PHOTO_COLUMNS], rows, "None."),
    pager(to("batch", batch.batch_id), {show: tab, ...only ? {code: only} : {}, ...after ? {after} : {}}, next)];
}

function tabs(batch, tab) {
  return h("nav", {class: "pager tabs", "aria-label": "Items"}, TABS.filter(name => name === "all" || name === tab || batch.items[name] > 0)
    .map(name => h("a", {href: `${to("batch", batch.batch_id)}?show=${name}`, "aria-current": name === tab ? "true" : null},
      name === "all" ? "all finished" : `${name} ${number(batch.items[name])}`)));
}

export function open(page) {
  const [id] = page.args, path = "/v1/batches/" + segment(id);
  const head = h("div", null), buttons = h("p", {class: "buttons"}), sums = h("div", null), why = h("div", null), codes = h("div", null),
    list = h("div", null);

  page.title = id;
  page.keys = [`batch:${id}`];
  page.root.append(h("h1", null, "Batch ", code(id)), head, buttons, sums,
    h("div", {class: "cards"}, section("Failures by code", codes), section("Open photos wait for", why)), section("Items", list));

  const cancel = async () => await confirmed("Cancel this batch?", "Each open item gets a result with the status cancelled.", "Cancel the batch") &&
    act(() => call("DELETE", path), "The batch is cancelled.");
  const again = async errors => {
    const done = await replay(path + "/replay", errors);
    if (done?.batch_id)
      location.hash = to("batch", done.batch_id);
  };
  let errors = {}; // of the latest refresh: the button outlives it
  page.refresh = async () => {
    const batch = await get(path), open = batch.state === "running" || batch.state === "accepted";
    errors = batch.errors;
    const tab = page.query.show ?? (page.query.code ? "all" : firstTab(batch));
    put(head, facts([["label", batch.label ?? undefined], ["client", h("a", {href: to("client", batch.client)}, batch.client)],
      ["state", state(batch.state)], ["created", when(batch.created_at)], ["finished", batch.finished_at ? when(batch.finished_at) : undefined],
      ["items", number(batch.items.total)], ["rejected", batch.items.rejected > 0 ? h("span", {class: "bad"}, number(batch.items.rejected)) : undefined],
      ["photos a second", open ? number(batch.photos_per_second, 1) : undefined],
      ["left", open && batch.eta_seconds !== null ? "≈ " + duration(batch.eta_seconds) : undefined],
      ["next start", open && batch.next_at ? when(batch.next_at) : undefined]]));
    put(buttons, open ? button("Cancel", cancel, {class: "danger", id: "cancel"}) : null,
      batch.photos.failed > 0 ? button("Replay failures", () => again(errors), {id: "replay"}) : null);
    put(sums, outcomes(batch.photos));
    put(codes, errorTable(batch.errors, name => `${to("batch", id)}?${new URLSearchParams({code: name})}`));
    put(why, batch.waiting ? waitingTable(batch.waiting) : notice(`${number(batch.photos.open)} photos are open.`));
    put(list, tabs(batch, tab), await items(path, batch, tab, page.query));
  };
}
