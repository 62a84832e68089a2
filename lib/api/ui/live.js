/* live.js: follows the event stream (Server-Sent Events) and calls back when something has happened.
 * What has changed the page then asks the API. Where keys are set, a ticket stands for the key. */
import {call, hasKey, Problem} from "./api.js";

const TYPES = [
  "batch.accepted", "batch.progress", "batch.finished", "host.opened", "host.half_open", "host.closed", "client.changed",
  "webhook.failing", "webhook.disabled", "webhook.recovered", "worker.lost",
  "queue.high_water", "config.reloaded"];
const RETRY_MS = 5000, RETRY_MAX_MS = 60000;

async function address(keys) {
  if (!hasKey())
    return "/v1/events?" + new URLSearchParams(keys.map(key => ["key", key]));
  const {ticket} = await call("POST", "/v1/tickets", {keys});
  return "/v1/events?" + new URLSearchParams({ticket});
}

/* Follows the keys until the returned function is called. onState(true or false) says whether the
 * stream is open. A key that may not follow them is not an error: the page then only polls. */
export function follow(keys, onEvent, onState) {
  let source = null, timer = null, delay = RETRY_MS, closed = false;

  const again = () => {
    onState(false);
    timer = setTimeout(open, delay);
    delay = Math.min(2 * delay, RETRY_MAX_MS);
  };

  async function open() {
    let url;
    try {
      url = await address(keys);
    } catch (e) {
      if (!closed && !(e instanceof Problem && (e.status === 403 || e.status === 404)))
        again();
      return;
    }
    if (closed)
      return;
    source = new EventSource(url);
    source.onopen = () => { delay = RETRY_MS; onState(true); };
    /* A ticket opens a stream only for a minute, so the browser must not repeat the request. */
    source.onerror = () => { source.close(); if (!closed) again(); };
    for (const type of TYPES)
      source.addEventListener("photopool." + type, onEvent);
    source.addEventListener("gap", onEvent);
  }

  open();
  return () => {
    closed = true;
    clearTimeout(timer);
    source?.close();
  };
}
