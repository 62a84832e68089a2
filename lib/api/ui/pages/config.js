/* config.js: the configuration that is in force in the process that answers. */
import {get} from "../api.js";
import {code, h, notice, put, table} from "../view.js";

/* Turns {http: {listen: ...}} into rows, for answers that are no list of parameters. */
function rowsOf(value, name) {
  if (value === null || typeof value !== "object" || Array.isArray(value) || "value" in value)
    return [{name, ...value !== null && typeof value === "object" && "value" in value ? value : {value}}];
  return Object.entries(value).flatMap(([key, inner]) => rowsOf(inner, name ? `${name}.${key}` : key));
}

export function open(page) {
  const box = h("div", null);

  page.title = "Configuration";
  page.period = 60000;
  page.root.append(h("h1", null, "Configuration in force"), notice("In the process that answers, with secrets left out."), box);
  page.refresh = async () => {
    const answer = await get("/v1/config"), list = answer.parameters ?? answer.config;
    const rows = Array.isArray(list) ? list : rowsOf(list ?? answer, "");
    put(box, table([["parameter", r => code(r.name ?? r.key), "wide"],
      ["value", r => code(typeof r.value === "string" ? r.value : JSON.stringify(r.value ?? null))],
      ["from", r => r.from ?? r.source ?? ""]], rows, "The server shows no parameters."));
  };
}
