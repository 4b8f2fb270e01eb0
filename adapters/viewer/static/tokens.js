"use strict";
// The tokens of an episode, coloured by one of the columns that its record holds; all of them are shown beside.

const MANY = 4000;

const scale = (values) => {
  const sorted = values.filter(Number.isFinite).map(Math.abs).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(0.98 * (sorted.length - 1))] || sorted[sorted.length - 1] || 1 : 1;
};

// Around what a column is read: a ratio of 1 is no change, a log-probability of 0 is certain.
const MIDDLE = { ratio: 1, correction: 1 };

const colour = (value, middle, most) => {
  const part = Math.max(-1, Math.min(1, (value - middle) / (most || 1)));
  if (!Number.isFinite(part) || part === 0) return "";
  return part > 0 ? `rgb(47 128 237 / ${(0.55 * part).toFixed(3)})` : `rgb(226 85 47 / ${(-0.55 * part).toFixed(3)})`;
};

const PALETTE = ["rgb(47 128 237 / .3)", "rgb(226 150 47 / .35)", "rgb(47 158 91 / .35)", "rgb(176 76 196 / .3)", "rgb(201 64 64 / .3)"];

V.tokens = (main, tokens, params, path) => {
  const names = Object.keys(tokens.columns);
  const chosen = names.includes(params.column) ? params.column : (tokens.columns.advantage || []).some(Boolean) ? "advantage" : "mask";
  const column = tokens.columns[chosen] || [], mask = tokens.columns.mask || [];
  const middle = MIDDLE[chosen] || 0;
  const most = scale(column.filter((_, t) => mask[t]).map((value) => value - middle));
  const select = V.el("select", { "aria-label": "colour by", onchange: (e) => { V.go(path, { ...params, column: e.target.value }, true); V.render(); } }, names.map((name) => V.el("option", { value: name, selected: name === chosen }, name)));
  const panel = V.el("div", { class: "panel", id: "token" }, V.el("span", { class: "faint" }, "point at a token, or walk with ← and →"));
  const flow = V.el("div", { class: "tokens text" });
  const spans = [];
  let at = -1;
  const show = (t) => {
    spans[at]?.classList.remove("at");
    at = t;
    spans[t].classList.add("at");
    panel.replaceChildren(V.el("b", {}, `${t}`), V.el("span", {}, `id ${tokens.ids[t]}`), V.el("span", {}, JSON.stringify(tokens.texts?.[t] ?? "")), ...names.map((name) => V.el("span", {}, `${name} ${V.figure(tokens.columns[name][t])}`)));
  };
  const add = (from) => {
    const to = Math.min(tokens.ids.length, from + MANY);
    for (let t = from; t < to; t++) {
      const text = tokens.texts ? tokens.texts[t] : ` ${tokens.ids[t]}`;
      const span = V.el("span", { class: mask[t] ? "" : "off", "data-t": t }, text === "" ? "∅" : text);
      const value = column[t];
      if (chosen === "weight version") span.style.background = mask[t] ? PALETTE[Math.abs(Math.round(value)) % PALETTE.length] : "";
      else if (chosen === "mask" || mask[t]) span.style.background = colour(value, middle, most);
      spans[t] = span;
      flow.append(span);
    }
    if (to < tokens.ids.length) { const more = V.el("button", { onclick: () => { more.remove(); add(to); } }, `show more of ${tokens.ids.length.toLocaleString("en")} tokens`); flow.append(more); }
  };
  flow.addEventListener("mouseover", (event) => { const t = event.target.closest?.("[data-t]")?.dataset.t; if (t !== undefined) show(Number(t)); });
  add(0);
  V.put(main, V.el("div", { class: "filters" }, V.el("label", {}, "colour by ", select), V.el("span", { class: "faint" }, `blue above ${V.figure(middle)}, red below; full colour at ± ${V.figure(most)}`), tokens.texts ? null : V.el("span", { class: "faint" }, "the run's tokenizer is not there: tokens are shown by their ids")), flow, panel);
  V.tokenKeys = { ArrowRight: () => spans[at + 1] && show(at + 1), ArrowLeft: () => spans[at - 1] && show(at - 1) };
};
