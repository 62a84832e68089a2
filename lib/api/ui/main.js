/* main.js: the frame of the dashboard: finds the page of the address (#/hosts?q=a), keeps it fresh,
 * and shows errors and dialogs.
 *
 * A page is a module of pages/ with open(page). It puts its fixed parts into page.root, sets
 * page.refresh, which asks the API and fills these parts, and may set page.keys (the events that
 * refresh it) and page.period (ms). A page is asked for when it is first opened. */
import {forgetKey, hasKey, maybe, onKeyNeeded, Problem} from "./api.js";
import {follow} from "./live.js";
import {button, h} from "./view.js";

const PERIOD_MS = 10000; // how often a page is refreshed when no event says that something has changed
const EVENT_MS = 2000;   // at most so often when events come
const READY_MS = 10000;

const NAV = [["", "Overview"], ["batches", "Batches"], ["clients", "Clients"], ["hosts", "Hosts"], ["workers", "Workers"],
  ["webhooks", "Webhooks"], ["config", "Configuration"]];
/* The page of NAV that a page belongs to. */
const ABOVE = {batch: "batches", item: "batches", client: "clients", host: "hosts", webhook: "webhooks"};

const $ = id => document.getElementById(id);
let page = null;

/* --- messages --- */

function showError(error) {
  const forbidden = error instanceof Problem && error.status === 403;
  if (error && !(error instanceof Problem))
    console.error(error);
  $("error").hidden = !error;
  $("error").textContent = error ? (forbidden ? "This key may not see this: " : "") + error.message : "";
}

/* Says what came of an action. */
function say(text, bad = false) {
  $("said").textContent = text;
  $("said").className = bad ? "bad" : "";
}

/* Runs what a button does, says what came of it, and refreshes the page. */
export async function act(action, done) {
  try {
    const result = await action();
    say(typeof done === "function" ? done(result) : done);
  } catch (error) {
    say(error.message, true);
  }
  refreshSoon(0);
}

/* --- dialogs --- */

/* Shows a dialog with these parts and a button `yes`. Returns a promise: what onYes() returns, if it
 * is not undefined (which keeps the dialog open), or null if the user goes back. */
export function dialog(title, parts, yes, onYes, danger) {
  const box = $("dialog");
  return new Promise(resolve => {
    const problem = h("p", {class: "bad", role: "alert"});
    const finish = value => { box.close(); resolve(value); };
    const form = h("form", {onsubmit: async event => {
      event.preventDefault();
      try {
        problem.textContent = "";
        const value = await onYes(form);
        if (value !== undefined)
          finish(value);
      } catch (error) {
        problem.textContent = error.message;
      }
    }}, h("h2", {id: "dialog-title"}, title), parts, problem,
      h("p", {class: "buttons"}, h("button", {type: "submit", class: danger ? "danger" : "primary"}, yes),
        button("Back", () => finish(null))));
    box.replaceChildren(form);
    /* The event of an earlier dialog may come only now, when this one is open. */
    box.onclose = () => { if (!box.open) resolve(null); };
    if (!box.open)
      box.showModal();
  });
}

/* Asks before something that can't be undone. */
export function confirmed(title, text, yes) {
  return dialog(title, h("p", null, text), yes, () => true, true);
}

onKeyNeeded(why => dialog("This server needs a key",
  [why ? h("p", {class: "bad"}, why) : null,
    h("p", null, "The key stays in this tab until you close it."),
    h("label", null, "API key ", h("input", {name: "key", type: "password", autocomplete: "off", required: true, id: "key"}))],
  "Use this key", form => form.elements.key.value.trim() || undefined));

/* --- keeping a page fresh --- */

let timer = null, timerAt = Infinity, lastMs = 0;

/* Refreshes the page within `ms`. */
export function refreshSoon(ms) {
  const at = Date.now() + ms;
  if (timer !== null && timerAt <= at)
    return;
  clearTimeout(timer);
  timerAt = at;
  timer = setTimeout(refresh, ms);
}

/* A page is refreshed once at a time; if it is to be refreshed meanwhile, then once more. */
async function refresh() {
  const current = page;
  clearTimeout(timer);
  timer = null;
  if (document.hidden || !current?.refresh)
    return;
  if (current.running) {
    current.again = true;
    return;
  }
  current.running = true;
  lastMs = Date.now();
  let error = null;
  try {
    await current.refresh();
  } catch (e) {
    error = e;
  }
  current.running = false;
  $("forget").hidden = !hasKey();
  if (current !== page)
    return;
  showError(error);
  refreshSoon(current.again ? 0 : current.period);
  current.again = false;
}

function onEvent() {
  refreshSoon(Math.max(200, lastMs + EVENT_MS - Date.now()));
}

async function showReady() {
  if (!document.hidden) {
    let text, bad = true;
    try {
      const ready = await fetch("/readyz").then(answer => answer.json());
      const reasons = Object.entries(ready.roles ?? {}).filter(([, role]) => !role.ready).map(([name, role]) => `${name}: ${role.reason}`);
      bad = !ready.ready;
      text = ready.ready ? "ready" : "not ready: " + reasons.join("; ");
      $("ready").title = ready.durability ?? "";
    } catch {
      text = "the server does not answer";
    }
    $("ready").textContent = text;
    $("ready").className = bad ? "bad" : "good";
  }
}

/* --- pages --- */

/* Reads "#/batch/b_1?code=x": {name: "batch", args: ["b_1"], query: {code: "x"}}. */
function readHash() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...args] = path.split("/").map(decodeURIComponent);
  return {name, args, query: Object.fromEntries(new URLSearchParams(query ?? ""))};
}

function markNav(name) {
  for (const a of $("nav").querySelectorAll("a")) {
    if (a.getAttribute("href") === "#/" + (ABOVE[name] ?? name))
      a.setAttribute("aria-current", "page");
    else
      a.removeAttribute("aria-current");
  }
}

async function openPage() {
  const {name, args, query} = readHash();
  const known = name === "" || name in ABOVE || NAV.some(([id]) => id === name);
  page?.close();
  say("");
  showError(null);
  const next = page = {name, args, query, root: h("div", null), keys: ["ops"], period: PERIOD_MS, refresh: null, closing: [],
    close: () => next.closing.forEach(fn => fn())};
  markNav(name);
  try {
    if (!known)
      throw new Error("There is no such page.");
    const module = await import(`./pages/${name || "overview"}.js`);
    if (next !== page)
      return;
    module.open(next);
  } catch (error) {
    showError(error);
    return;
  }
  $("main").replaceChildren(next.root);
  $("main").setAttribute("aria-busy", "true");
  document.title = `${next.title} · photopool`;
  await refresh();
  if (next !== page)
    return;
  $("main").setAttribute("aria-busy", "false");
  $("main").dataset.shows = location.hash;
  next.closing.push(follow(next.keys, onEvent, open => { $("live").textContent = open ? "live" : ""; }));
}

function buildNav(hasConfig) {
  $("nav").replaceChildren(...NAV.filter(([id]) => id !== "config" || hasConfig)
    .map(([id, title]) => h("a", {href: "#/" + id}, title)));
  markNav(readHash().name);
}

$("forget").onclick = () => { forgetKey(); location.reload(); };
document.querySelector(".skip").onclick = event => { event.preventDefault(); $("main").focus(); };
addEventListener("hashchange", () => { openPage(); scrollTo(0, 0); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) { showReady(); refreshSoon(0); } });
setInterval(showReady, READY_MS);

buildNav(false);
showReady();
openPage().then(async () => {
  try {
    buildNav(await maybe("/v1/config") !== null);
  } catch { /* the key may not see it */ }
});
