/* chart.js: line charts over time, drawn by uPlot (vendor/). */
import {h} from "./view.js";

const HEIGHT = 160;

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function axis(more) {
  const line = {stroke: color("line"), width: 1};
  return {stroke: color("dim"), grid: line, ticks: line, font: "12px system-ui", ...more};
}

function options(series, width, span, points) {
  return {
    width, height: HEIGHT, cursor: {y: false}, axes: [axis(), axis({size: 55})],
    scales: {
      x: {range: u => {
        const times = u.data[0], last = times.at(-1) ?? Date.now() / 1000;
        return [Math.min(times[0] ?? last, last - span), last];
      }},
      y: {range: (u, min, max) => [0, Math.max(max ?? 0, 1) * 1.1]}},
    series: [{}, ...series.map(([label, name]) => ({label, stroke: color(name), width: 2, points: {show: points || (u => u.data[0].length < 3)}}))]};
}

/* Makes a chart of at least `span` seconds. series: [[label, name of a colour of style.css], ...];
 * `points` marks each value. set() draws [times in s, values of the first series, ...]. The chart goes
 * when the page closes. */
export function chart(page, series, label, span, points = false) {
  const box = h("div", {class: "chart", role: "img", "aria-label": label});
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let plot = null, data = null;

  const draw = () => {
    plot?.destroy();
    plot = null;
    if (data && box.clientWidth > 0)
      plot = new uPlot(options(series, box.clientWidth, span, points), data, box);
  };
  const observer = new ResizeObserver(() => {
    if (plot && box.clientWidth > 0)
      plot.setSize({width: box.clientWidth, height: HEIGHT});
    else
      draw();
  });
  observer.observe(box);
  dark.addEventListener("change", draw);
  page.closing.push(() => { observer.disconnect(); dark.removeEventListener("change", draw); plot?.destroy(); });
  return {box, set(next) {
    data = next;
    if (plot)
      plot.setData(data);
    else
      draw();
  }};
}

const midnight = day => Date.parse(day + "T00:00:00Z") / 1000;

export const DAYS = 30; // days that pages show

/* A chart of the days that GET .../stats answers; set() takes them. */
export function dayChart(page, label) {
  const made = chart(page, [["stored", "good"], ["unchanged", "known"], ["failed", "bad"]], label, DAYS * 86400, true);
  return {box: made.box, set(days) {
    made.set([days.map(d => midnight(d.day)), ...["stored", "unchanged", "failed"].map(name => days.map(d => d[name] ?? 0))]);
  }};
}

/* The UTC day `ago` days before today. */
export function dayBefore(ago) {
  return new Date(Date.now() - ago * 86400000).toISOString().slice(0, 10);
}
