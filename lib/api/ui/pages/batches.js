/* batches.js: all batches, newest first, by client, state and label. */
import {get, withQuery} from "../api.js";
import {BATCH_COLUMNS} from "../shown.js";
import {h, pager, put, table, to} from "../view.js";

const STATES = ["", "accepted", "running", "finished", "cancelled"];

export function open(page) {
  const {query} = page;
  const box = h("div", null);
  const filter = h("form", {class: "filter", onsubmit: event => {
    event.preventDefault();
    const {client, state, label} = filter.elements;
    /* The id of a batch leads to the batch. */
    location.hash = /^b_\w+$/.test(label.value.trim()) ? to("batch", label.value.trim())
      : withQuery("#/batches", {client: client.value.trim(), state: state.value, label: label.value.trim()});
  }},
  h("label", null, "client", h("input", {name: "client", value: query.client ?? "", size: 12})),
  h("label", null, "state", h("select", {name: "state"}, STATES.map(s => h("option", {value: s, selected: s === (query.state ?? "")}, s || "any")))),
  h("label", null, "label or batch id", h("input", {name: "label", type: "search", value: query.label ?? "", size: 26})),
  h("button", {type: "submit"}, "Show"));
  const find = h("form", {class: "filter", onsubmit: event => {
    event.preventDefault();
    location.hash = to("item", find.elements.owner.value.trim(), find.elements.item.value);
  }},
  h("label", null, "client", h("input", {name: "owner", value: query.client ?? "", size: 12, required: true})),
  h("label", null, "item", h("input", {name: "item", size: 26, required: true})),
  h("button", {type: "submit"}, "Find the item"));

  page.title = "Batches";
  page.root.append(h("h1", null, "Batches"), filter, box, h("h2", null, "One item"), find);
  page.refresh = async () => {
    const {batches, next} = await get(withQuery("/v1/batches", {...query, limit: 50}));
    put(box, table(BATCH_COLUMNS, batches, "There is no such batch."), pager("#/batches", query, next));
  };
}
