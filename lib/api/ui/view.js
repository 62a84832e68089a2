/* view.js: makes the elements of all pages. Text of callers and hosts becomes text, never markup:
 * nothing here parses HTML, and only http(s) URLs become links. */

/* Makes an element. `attributes` may have listeners ("onclick": function); children are nodes, texts,
 * numbers, arrays of these, or null for nothing. */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function")
      element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined)
      element.append(child instanceof Node ? child : String(child));
  return element;
}

/* What tells an element from the others of a table, to find it again after the table is replaced. */
function mark(element) {
  return element.id || element.dataset.mark || element.getAttribute("href") || element.textContent;
}

/* Replaces what is in the box, if it has changed. The focus stays on the same link or button. */
export function put(box, ...children) {
  const next = h("div", null, children);
  const old = h("div", null);
  old.append(...[...box.childNodes].map(node => node.cloneNode(true)));
  if (next.isEqualNode(old))
    return;
  const focused = box.contains(document.activeElement) ? document.activeElement : null;
  const wanted = focused && mark(focused);
  box.replaceChildren(...next.childNodes);
  if (focused)
    [...box.querySelectorAll(focused.tagName)].find(element => mark(element) === wanted)?.focus();
}

/* --- numbers, times --- */

const numbers = new Intl.NumberFormat("en");

export function number(n, digits = 0) {
  if (n === null || n === undefined)
    return "–";
  return digits ? n.toLocaleString("en", {maximumFractionDigits: digits}) : numbers.format(n);
}

export function percent(share) {
  return share === null || share === undefined ? "–" : number(100 * share, 1) + " %";
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined)
    return "–";
  const s = Math.max(0, Math.round(seconds));
  if (s < 100)
    return s + " s";
  if (s < 100 * 60)
    return Math.round(s / 60) + " min";
  return s < 48 * 3600 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " days";
}

/* A time as "3 min ago" or "in 40 s"; the exact time is its tooltip. */
export function when(time) {
  if (!time)
    return "–";
  const seconds = (Date.parse(time) - Date.now()) / 1000;
  const rough = Math.abs(seconds) < 60 ? Math.round(seconds / 5) * 5 : seconds;
  const text = rough > 0 ? "in " + duration(rough) : rough < 0 ? duration(-rough) + " ago" : "now";
  return h("time", {datetime: time, title: time}, text);
}

/* --- parts of pages --- */

export function code(text) {
  return h("code", null, text);
}

/* A URL that a client has sent: a link if it is http(s), else text. */
export function link(url) {
  return /^https?:\/\//i.test(url) ? h("a", {href: url, target: "_blank", rel: "noopener noreferrer", class: "url"}, url)
    : h("span", {class: "url"}, url);
}

/* A link to a page: to("batch", id). */
export function to(page, ...rest) {
  const parts = rest.map(encodeURIComponent);
  return `#/${[page, ...parts].join("/")}`;
}

export function button(text, onclick, more) {
  return h("button", {type: "button", onclick, ...more}, text);
}

/* A table. Each column is [heading, row => cell, class]; the class "n" is for numbers. `empty` stands
 * in place of a table without rows. */
export function table(columns, rows, empty) {
  if (rows.length === 0)
    return h("p", {class: "dim"}, empty);
  return h("table", null,
    h("thead", null, h("tr", null, columns.map(([head, , kind]) => h("th", {scope: "col", class: kind}, head)))),
    h("tbody", null, rows.map(row => h("tr", null,
      columns.map(([head, cell, kind]) => h("td", {class: kind, "data-label": head || null}, h("div", null, cell(row))))))));
}

/* A list of facts: [[name, value], ...]. */
export function facts(list) {
  return h("dl", null, list.filter(([, value]) => value !== undefined)
    .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value ?? "–"))));
}

export function section(title, ...children) {
  return h("section", null, h("h2", null, title), children);
}

export function notice(text, bad) {
  return h("p", {class: bad ? "bad" : "dim"}, text);
}

/* A link to the next page of a list, and one back to the first. `query` is the list's filter. */
export function pager(path, query, next) {
  const link = (text, after) => h("a", {href: path + "?" + new URLSearchParams({...query, ...after})}, text);
  const first = {...query};
  delete first.after;
  return h("p", {class: "pager"}, query.after ? h("a", {href: path + "?" + new URLSearchParams(first)}, "First page") : null,
    next ? link("Next page", {after: next}) : null);
}

/* --- outcomes of photos --- */

const OUTCOMES = ["stored", "unchanged", "skipped", "failed", "cancelled", "open"];

/* The photos of a batch by outcome. What the outcomes do not name, such as photos of superseded
 * items, is "other", so that the parts add up to the total. */
export function parts(photos) {
  const list = OUTCOMES.map(name => [name, photos[name] ?? 0]);
  const other = photos.total - list.reduce((sum, [, n]) => sum + n, 0);
  return other > 0 ? [...list, ["other", other]] : list;
}

/* A bar whose segments are [class, number]; screen readers read the numbers. */
export function bar(segments, label) {
  const bar = h("div", {class: "bar", role: "img", "aria-label": label ??
    segments.filter(([, n]) => n > 0).map(([name, n]) => `${n} ${name}`).join(", ")});
  for (const [name, n] of segments.filter(([, count]) => count > 0)) {
    const piece = h("i", {class: name});
    piece.style.flexGrow = n;
    bar.append(piece);
  }
  return bar;
}

/* The numbers of a bar, in words. */
export function legend(segments) {
  return h("ul", {class: "legend"}, segments.filter(([, n]) => n > 0)
    .map(([name, n]) => h("li", null, h("i", {class: name}), ` ${number(n)} ${name}`)));
}

export function state(name, bad) {
  return h("span", {class: "state " + (bad ? "bad" : "")}, name);
}
