/* item.js: the newest revision of an item, and why each of its photos is as it is. */
import {get, segment, withQuery} from "../api.js";
import {PHOTO_COLUMNS, photoRows} from "../photos.js";
import {button, code, facts, h, number, put, section, state, table, to, when} from "../view.js";

function attempts(list) {
  return table([["attempt", a => when(a.at)], ["tier, s", a => a.tier, "n"], ["code", a => code(a.code ?? "stored")], ["status", a => a.http_status ?? "", "n"],
    ["ms", a => number(a.ms), "n"], ["address", a => a.address ?? ""]], list, "No attempts are recorded.");
}

/* Says in plain sentences what would happen to a photo now, and what its last attempts were. */
async function explain(box, client, url) {
  try {
    const e = await get(withQuery("/v1/explain", {client, url}));
    // nothing is known of a URL that can't be read, or that no import has named
    const known = await get(withQuery("/v1/photos", {client, url})).catch(() => null);
    const sentences = Array.isArray(e.sentences) ? e.sentences.join(" ") : e.why;
    put(box, h("p", null, state(e.verdict), ": ", sentences, e.next_at ? [" Next: ", when(e.next_at), "."] : null),
      Array.isArray(known?.attempts) ? attempts(known.attempts) : null);
  } catch (error) {
    put(box, h("p", {class: "bad"}, error.message));
  }
}

export function open(page) {
  const [client, id] = page.args;
  const head = h("div", null), photos = h("div", null), why = h("div", {role: "status"});

  page.title = id;
  page.root.append(h("h1", null, "Item ", code(id)), head, section("Photos", photos, why));
  const columns = [...PHOTO_COLUMNS, ["", row => button("Explain", () => explain(why, client, row.photo.url), {"data-mark": row.photo.url})]];
  page.refresh = async () => {
    const answer = await get(`/v1/items/${segment(client)}/${segment(id)}`), item = answer.data ?? answer;
    put(head, facts([["client", h("a", {href: to("client", client)}, client)], ["status", state(item.status, item.status === "failed")],
      ["revision", item.revision], ["batch", h("a", {href: to("batch", item.batch_id)}, code(item.batch_id))],
      ["time", when(answer.time ?? item.created_at)], ["meta", item.meta ? code(JSON.stringify(item.meta)) : undefined]]));
    put(photos, table(columns, photoRows([item]), "The item has no photos."));
  };
}
