/* config.js: the configuration that is in force in the process that answers. */
import {get} from "../api.js";
import {code, h, notice, put, table} from "../view.js";

/* Where a value came from, such as "file /etc/photopool/photopool.yaml:12". */
function source(row) {
  const place = row.origin ? ` ${row.origin}${row.line ? ":" + row.line : ""}` : "";
  return row.source === "default" ? h("span", {class: "dim"}, "default") : row.source + place;
}

export function open(page) {
  const box = h("div", null);

  page.title = "Configuration";
  page.period = 60000;
  page.root.append(h("h1", null, "Configuration in force"), notice("In the process that answers, with secrets left out."), box);
  page.refresh = async () => {
    const {parameters} = await get("/v1/config?limit=1000");
    put(box, table([["parameter", r => code(r.name), "wide"],
      ["value", r => code(typeof r.value === "string" ? r.value : JSON.stringify(r.value))], ["from", source]],
    parameters, "The server shows no parameters."));
  };
}
