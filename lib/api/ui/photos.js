/* photos.js: tables of photos, with thumbnails of stored photos. */
import {hasKey, send} from "./api.js";
import {code, h, link, state, when} from "./view.js";

const KEPT = 200;         // thumbnails in memory, where a key is needed to load one
const AT_ONCE = 4;        // thumbnails that are loaded with a key at the same time
const kept = new Map();   // sha256 -> blob URL
const queue = [];         // images that wait: [image, sha256]
let loading = 0;

function keep(sha256, blob) {
  const url = URL.createObjectURL(blob);
  kept.set(sha256, url);
  if (kept.size > KEPT) {
    const [oldest] = kept.keys();
    URL.revokeObjectURL(kept.get(oldest));
    kept.delete(oldest);
  }
  return url;
}

async function loadNext() {
  if (loading >= AT_ONCE || queue.length === 0)
    return;
  const [image, sha256] = queue.shift();
  loading++;
  try {
    if (image.isConnected)
      image.src = kept.get(sha256) ?? keep(sha256, await (await send("GET", "/v1/photos/" + sha256)).blob());
  } catch { /* the bytes may be gone: the place stays empty */ }
  loading--;
  loadNext();
}

/* With a key a photo can't be loaded by its URL, because an <img> sends no key. It is loaded when it
 * comes into view. */
const seen = new IntersectionObserver(entries => {
  for (const entry of entries.filter(e => e.isIntersecting)) {
    seen.unobserve(entry.target);
    queue.push([entry.target, entry.target.dataset.sha256]);
    loadNext();
  }
});

function thumb(photo) {
  if (!photo.sha256)
    return null;
  const size = photo.width ? `${photo.width} × ${photo.height}, ${photo.bytes} bytes` : "";
  const image = h("img", {class: "thumb", alt: "", title: size, loading: "lazy", "data-sha256": photo.sha256});
  if (!hasKey())
    image.src = "/v1/photos/" + photo.sha256;
  else if (kept.has(photo.sha256))
    image.src = kept.get(photo.sha256);
  else
    seen.observe(image);
  return image;
}

/* Why a photo has failed, or why it is still open. */
function reason(photo) {
  const error = photo.error ?? photo.last_error;
  const open = photo.outcome === "open";
  return [open ? h("span", null, photo.waiting ?? photo.state ?? "", " ", photo.next_at || photo.due_at ?
    ["next try ", when(photo.next_at ?? photo.due_at)] : null, " ") : null,
  error ? [code(error.code ?? error), " ", error.message ?? error.detail ?? ""] : null,
  error?.retry_at ? [" Asked again ", when(error.retry_at), "."] : null];
}

const BAD = ["failed", "skipped"];

/* Columns for view.js's table(), of rows {item, client, photo}. */
export const PHOTO_COLUMNS = [
  ["", row => thumb(row.photo)],
  ["outcome", row => state(row.photo.outcome, BAD.includes(row.photo.outcome))],
  ["photo", row => link(row.photo.url), "wide"],
  ["why", row => reason(row.photo)],
  ["attempts", row => row.photo.attempts ?? "–", "n"]];

/* The photos of results, or of open items, as rows. */
export function photoRows(list) {
  return list.map(entry => entry.data ?? entry)
    .flatMap(item => (item.photos ?? []).map(photo => ({item: item.item, client: item.client, photo})));
}
