"use strict";
// The list of episodes: as many rows are in the page as can be seen, however many there are.

const ROW = 28, PART = 100;
const CHOICES = [["source", "run or file"], ["phase", "phase"], ["env", "environment"], ["split", "split"], ["level", "level"], ["status", "status"], ["stop", "stop reason"], ["tool", "tool"]];
const LIMITS = [["min_reward", "reward from"], ["max_reward", "to"], ["min_step", "step from"], ["max_step", "to"], ["min_characters", "length from"], ["max_characters", "to"]];
V.FILTERS = [...CHOICES.map(([name]) => name), ...LIMITS.map(([name]) => name), "q", "error", "sort", "task", "grp"];

V.asked = (params) => Object.fromEntries(V.FILTERS.filter((name) => params[name]).map((name) => [name, params[name]]));

V.outcome = (row) => (row.success === 1 ? "good" : row.success === 0 ? "bad" : "faint");

V.listRow = (row, number, params) => {
  const link = V.el("a", { class: "row", href: V.href(`episode/${row.id}`, { ...V.asked(params), at: number }), "data-at": number },
    V.el("span", { class: V.outcome(row) }, row.status || "–"), V.el("span", {}, V.figure(row.reward)),
    V.el("span", { class: "wide" }, row.phase ?? ""), V.el("span", {}, row.step ?? ""), V.el("span", { class: "wide" }, row.env),
    V.el("span", { class: "wide" }, row.level ?? ""), V.el("span", { class: "wide" }, row.characters.toLocaleString("en")),
    V.el("span", { class: row.error ? "bad" : "faint" }, row.error || row.preview));
  link.style.top = `${number * ROW}px`;
  return link;
};

V.views.episodes = async (main, route) => {
  const params = route.params, asked = V.asked(params);
  const set = (more) => { V.go("episodes", { ...asked, ...more }, true); V.render(); };
  const offered = await V.get("choices");
  const filters = V.el("div", { class: "filters" },
    V.el("input", { type: "search", id: "search", placeholder: 'search all texts: words, "a phrase", begin*', value: params.q || "", onchange: (e) => set({ q: e.target.value }) }),
    CHOICES.filter(([name]) => (offered[name] || []).length > 1 || params[name]).map(([name, label]) => {
      const select = V.el("select", { "aria-label": label, onchange: (e) => set({ [name]: e.target.value }) }, V.el("option", { value: "" }, label),
        offered[name].map(([value, count]) => V.el("option", { value, selected: String(value) === params[name] }, `${value} (${count.toLocaleString("en")})`)));
      return select;
    }),
    LIMITS.map(([name, label]) => V.el("input", { class: "short", inputmode: "decimal", placeholder: label, "aria-label": name.replace("_", " "), value: params[name] || "", onchange: (e) => set({ [name]: e.target.value }) })),
    V.el("input", { class: "short", placeholder: "error has …", value: params.error || "", onchange: (e) => set({ error: e.target.value }) }),
    V.el("select", { "aria-label": "order", onchange: (e) => set({ sort: e.target.value }) },
      [["", "as recorded"], ["-reward", "highest reward"], ["reward", "lowest reward"], ["characters", "shortest"], ["-characters", "longest"], ["-step", "latest step"]]
        .map(([value, label]) => V.el("option", { value, selected: value === (params.sort || "") }, label))),
    Object.keys(asked).length ? V.el("button", { onclick: () => { V.go("episodes", {}, true); V.render(); } }, "clear") : null);
  const head = V.el("div", { class: "head row" }, ["status", "reward", "phase", "step", "environment", "level", "length", "text"].map((name, i) => V.el("span", { class: [2, 4, 5, 6].includes(i) ? "wide" : "" }, name)));
  const first = await V.get("episodes", { ...asked, limit: PART, offset: 0 });
  const count = V.el("p", { class: "faint", id: "count" }, `${first.total.toLocaleString("en")} episodes`);
  const list = V.el("div", { class: "list", tabindex: 0, role: "list" });
  const space = V.el("div");
  space.style.height = `${Math.min(first.total * ROW, 2e7)}px`;
  list.append(space);
  V.put(main, filters, count, head, list);
  const parts = new Map([[0, first.rows]]);
  const drawn = new Map();
  let at = Number(params.at || 0);
  const draw = () => {
    const from = Math.max(0, Math.floor(list.scrollTop / ROW) - 10), to = Math.min(first.total, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 10);
    for (const [number, row] of drawn) if (number < from || number >= to) { row.remove(); drawn.delete(number); }
    for (let number = from; number < to; number++) {
      const part = Math.floor(number / PART);
      if (!parts.has(part)) {
        parts.set(part, null);
        V.get("episodes", { ...asked, limit: PART, offset: part * PART }).then((found) => { parts.set(part, found.rows); draw(); }, () => parts.delete(part));
      }
      const row = parts.get(part)?.[number % PART];
      if (row && !drawn.has(number)) {
        const made = V.listRow(row, number, params);
        drawn.set(number, made);
        list.append(made);
      }
      drawn.get(number)?.classList.toggle("at", number === at);
    }
  };
  let asking = false;
  list.addEventListener("scroll", () => { if (!asking) { asking = true; requestAnimationFrame(() => { asking = false; draw(); }); } }, { passive: true });
  V.keys = {
    j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), G: () => move(first.total), g: () => move(-first.total),
    Enter: () => drawn.get(at)?.click(),
  };
  const move = (by) => {
    at = Math.max(0, Math.min(first.total - 1, at + by));
    if (at * ROW < list.scrollTop) list.scrollTop = at * ROW;
    if ((at + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (at + 1) * ROW - list.clientHeight;
    draw();
  };
  main.addEventListener("shown", () => {
    list.scrollTop = Math.max(0, at * ROW - list.clientHeight / 2);
    draw();
    list.focus({ preventScroll: true });
  });
  V.grown = (total) => { if (!Object.keys(asked).length && total !== first.total) count.replaceChildren(V.shown(`${first.total.toLocaleString("en")} episodes; ${total.toLocaleString("en")} by now: `), V.el("button", { onclick: () => V.render() }, "show")); };
};
