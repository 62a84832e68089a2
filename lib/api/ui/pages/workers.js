/* workers.js: the workers, and draining them. */
import {call, get} from "../api.js";
import {act, confirmed} from "../main.js";
import {bar, button, code, h, number, put, state, table, when} from "../view.js";

function stateOf(w) {
  return w.state ?? (w.draining ? "draining" : "live");
}

async function drain(w) {
  if (await confirmed("Drain this worker?", `${w.id} finishes the ${w.in_flight} photos that it fetches, takes no more, and ends.`, "Drain it"))
    act(() => call("POST", "/v1/workers/drain", {worker: w.id}), "The worker drains.");
}

export function open(page) {
  const box = h("div", null);

  page.title = "Workers";
  page.period = 5000;
  page.root.append(h("h1", null, "Workers"), box);
  page.refresh = async () => {
    const {workers} = await get("/v1/workers?limit=1000");
    put(box, table([
      ["worker", w => code(w.id), "wide"], ["state", w => state(stateOf(w), stateOf(w) !== "live")], ["tiers, s", w => String(w.tiers)],
      ["in flight", w => [bar([["in_flight", w.in_flight], ["free", Math.max(0, w.capacity - w.in_flight)]], `${w.in_flight} of ${w.capacity}`),
        `${number(w.in_flight)} of ${number(w.capacity)}`]],
      ["clients", w => number(w.clients), "n"], ["weight", w => w.weight, "n"], ["started", w => when(w.started_at)], ["seen", w => when(w.seen_at)],
      ["", w => stateOf(w) === "live" ? button("Drain", () => drain(w), {"data-mark": w.id, class: "drain"}) : null]],
    workers, "No worker is alive: nothing is fetched. Start one with photopool serve --roles worker."));
  };
}
