"use strict";
// Curves of several runs in one picture, with the raw points behind the smoothed line.

const COLOURS = ["#3b7dd8", "#d9822b", "#2f9e5b", "#b04cc4", "#c94040", "#1fa2a6", "#8a7a1f", "#7a6ff0"];
const FIRST = ["train/reward", "train/success", "evaluation/greedy_success", "evaluation/sampled_success", "train/groups_with_signal",
  "train/sampled_tokens", "train/entropy", "train/kl", "train/clip_fraction", "train/loss", "train/tool_calls", "timing/tokens_per_second"];
const SVG = "http://www.w3.org/2000/svg";

const svg = (tag, attributes, text) => {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.append(V.shown(text));
  return made;
};

// Exponential mean, weights corrected for the beginning: the first value is itself.
V.smoothed = (points, weight) => {
  let sum = 0, count = 0;
  return points.map(([step, value]) => {
    sum = weight * sum + (1 - weight) * value;
    count = weight * count + (1 - weight);
    return [step, sum / count];
  });
};

const ticks = (low, high) => {
  const span = high - low || Math.abs(high) || 1;
  const unit = 10 ** Math.floor(Math.log10(span / 4));
  const step = [1, 2, 5, 10].map((n) => n * unit).find((n) => span / n <= 5) || unit;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6 && found.length < 12; at += step) found.push(Number(at.toPrecision(12)));
  return found;
};

V.chart = (name, lines, weight, raw) => {
  const W = 440, H = 230, L = 46, R = 8, T = 8, B = 22;
  const all = lines.flatMap((line) => line.points);
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [x, y] of all) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y); }
  if (x1 === x0) { x0 -= 0.5; x1 += 0.5; }
  if (y1 === y0) { y0 -= 0.5; y1 += 0.5; }
  const X = (x) => L + ((x - x0) / (x1 - x0)) * (W - L - R);
  const Y = (y) => H - B - ((y - y0) / (y1 - y0)) * (H - T - B);
  const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": name });
  for (const y of ticks(y0, y1)) {
    picture.append(svg("line", { class: "axis", x1: L, x2: W - R, y1: Y(y), y2: Y(y) }));
    picture.append(svg("text", { x: L - 4, y: Y(y) + 4, "text-anchor": "end" }, V.figure(y, 3)));
  }
  for (const x of ticks(x0, x1)) picture.append(svg("text", { x: X(x), y: H - 6, "text-anchor": "middle" }, V.figure(x, 4)));
  const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`).join("");
  for (const line of lines) {
    const smooth = V.smoothed(line.points, weight);
    if (raw && weight > 0) picture.append(svg("path", { class: "raw", d: path(line.points), stroke: line.colour }));
    picture.append(svg("path", { d: path(smooth), stroke: line.colour }));
    if (raw && line.points.length <= 60) for (const [x, y] of line.points) picture.append(svg("circle", { cx: X(x), cy: Y(y), r: 1.8, fill: line.colour }));
  }
  const readout = V.el("div", { class: "faint" }, " ");
  picture.addEventListener("mousemove", (event) => {
    const box = picture.getBoundingClientRect();
    const x = x0 + (((event.clientX - box.left) / box.width) * W - L) / (W - L - R) * (x1 - x0);
    const near = lines.map((line) => {
      const point = line.points.reduce((best, each) => (Math.abs(each[0] - x) < Math.abs(best[0] - x) ? each : best));
      return `${line.name} ${V.figure(point[1])} (step ${V.figure(point[0])})`;
    });
    readout.replaceChildren(V.shown(near.join(" · ")));
  });
  return V.el("div", { class: "chart" }, V.el("h3", {}, name), picture, readout);
};

V.views = { runs: async (main, route) => {
  const { runs } = await V.get("curves");
  V.follow = true;
  const params = route.params;
  const hidden = new Set((params.hide || "").split(",").filter(Boolean));
  const shown = runs.map((run, i) => ({ ...run, colour: COLOURS[i % COLOURS.length] })).filter((run) => !hidden.has(run.name));
  const weight = Math.min(0.99, Math.max(0, Number(params.smooth || 0)));
  const raw = params.raw !== "0";
  const set = (more) => V.go("runs", { ...params, ...more }, true) || V.render();
  if (!runs.length) {
    V.put(main, V.el("p", { class: "faint" }, "No training run is among the sources; "), V.el("a", { href: V.href("episodes") }, "their episodes"));
    return;
  }
  const legend = V.el("div", { class: "legend" }, runs.map((run, i) => {
    const colour = V.el("i");
    colour.style.background = COLOURS[i % COLOURS.length];
    const box = V.el("input", { type: "checkbox", checked: !hidden.has(run.name), onchange: () => {
      if (hidden.has(run.name)) hidden.delete(run.name); else hidden.add(run.name);
      set({ hide: [...hidden].join(",") });
    } });
    return V.el("label", {}, box, " ", colour, run.name, " ", V.el("a", { href: V.href("episodes", { source: run.name }) }, "episodes"));
  }));
  const names = [...new Set(shown.flatMap((run) => Object.keys(run.series)))].sort();
  const rank = (name) => { const at = FIRST.indexOf(name); return at < 0 ? FIRST.length : at; };
  names.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  const wanted = names.filter((name) => !params.metric || name.includes(params.metric));
  const count = params.all ? wanted.length : params.metric ? 24 : 9;
  V.put(main, legend, V.el("div", { class: "filters" },
    V.el("input", { type: "search", id: "search", placeholder: "figures whose name contains …", value: params.metric || "", onchange: (e) => set({ metric: e.target.value }) }),
    V.el("label", {}, "smoothing ", V.el("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: weight, onchange: (e) => set({ smooth: e.target.value }) }), " ", V.figure(weight)),
    V.el("label", {}, V.el("input", { type: "checkbox", checked: raw, onchange: (e) => set({ raw: e.target.checked ? "" : "0" }) }), " raw points")));
  V.put(main, V.el("div", { class: "charts" }, wanted.slice(0, count).map((name) =>
    V.chart(name, shown.filter((run) => run.series[name]).map((run) => ({ name: run.name, colour: run.colour, points: run.series[name] })), weight, raw))));
  if (wanted.length > count) V.put(main, V.el("p", {}, V.el("button", { onclick: () => set({ all: 1 }) }, `show all ${wanted.length} figures`)));
  for (const run of shown) for (const problem of run.problems) V.put(main, V.el("p", { class: "error" }, `${run.name}: ${problem}`));
  V.configs(main, shown, params, set);
} };

V.configs = (main, runs, params, set) => {
  const paths = [...new Set(runs.flatMap((run) => Object.keys(run.config)))].sort();
  if (!paths.length) return;
  const differs = (path) => new Set(runs.map((run) => run.config[path])).size > 1;
  const all = params.config === "all" || runs.length === 1;
  const listed = paths.filter((path) => all || differs(path));
  V.put(main, V.el("h2", {}, runs.length > 1 ? `Config: ${paths.filter(differs).length} of ${paths.length} values differ` : "Config"));
  if (runs.length > 1) V.put(main, V.el("button", { onclick: () => set({ config: all ? "" : "all" }) }, all ? "only what differs" : "all values"));
  V.put(main, V.el("div", { class: "scroll" }, V.el("table", {},
    V.el("tr", {}, V.el("th", {}, "value"), runs.map((run) => V.el("th", {}, run.name))),
    listed.map((path) => V.el("tr", {}, V.el("td", { class: differs(path) ? "bad" : "faint" }, path), runs.map((run) => V.el("td", {}, run.config[path] ?? "–")))))));
};
