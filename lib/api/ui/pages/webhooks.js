/* webhooks.js: the endpoints that results are posted to. */
import {get, withQuery} from "../api.js";
import {h, pager, put, state, table, to, when} from "../view.js";

export function stateOf(w) {
  return w.disabled ? state("disabled: it answered 410", true) : w.paused ? state("paused", true) : state("active");
}

export function open(page) {
  const box = h("div", null);

  page.title = "Webhooks";
  page.root.append(h("h1", null, "Webhooks"), box);
  page.refresh = async () => {
    const {webhooks, next} = await get(withQuery("/v1/webhooks", {...page.query, limit: 100}));
    put(box, table([
      ["name", w => h("a", {href: to("webhook", w.name)}, w.name)], ["state", stateOf], ["URL", w => h("span", {class: "url"}, w.url), "wide"],
      ["clients", w => w.clients ? w.clients.join(", ") : "all"], ["changed", w => when(w.updated_at)]],
    webhooks, "There are no webhooks. Add one with photopool webhooks add."), pager("#/webhooks", page.query, next));
  };
}
