"use strict";
// The list of episodes: as many rows are in the page as can be seen, however many there are.

const ROW = 28, PART = 100;
const AT_ONCE = 2; // parts that are asked for at a time, so that what was scrolled past is not waited for
const KEPT = 40; // parts that are held
V.TALLEST = 1e7; // pixels: browsers cut off what is much taller
const CHOICES = [["source", "run or file"], ["phase", "phase"], ["env", "environment"], ["split", "split"], ["level", "level"], ["status", "status"], ["stop", "stop reason"], ["tool", "tool"]];
const LIMITS = [["min_reward", "reward from"], ["max_reward", "to"], ["min_step", "step from"], ["max_step", "to"], ["min_characters", "length from"], ["max_characters", "to"]];
V.FILTERS = [...CHOICES.map(([name]) => name), ...LIMITS.map(([name]) => name), "q", "error", "sort", "task", "grp"];

V.asked = (params) => Object.fromEntries(V.FILTERS.filter((name) => params[name]).map((name) => [name, params[name]]));

V.outcome = (row) => (row.success === 1 ? "good" : row.success === 0 ? "bad" : "faint");

// A row is made once and filled again and again while the list is scrolled.
V.emptyRow = () => V.el("a", { class: "row" }, ["", "", "wide", "", "wide", "wide", "wide", ""].map((kind) => V.el("span", { class: kind })));

V.fillRow = (link, row, number, query) => {
  link.href = `#/episode/${row.id}${query ? query + "&" : "?"}at=${number}`;
  link.dataset.at = number;
  const texts = [row.status || "–", V.figure(row.reward), row.phase ?? "", row.step ?? "", row.env, row.level ?? "", V.whole(row.characters), row.error || row.preview];
  texts.forEach((text, i) => V.say(link.children[i], String(text)));
  link.firstChild.className = V.outcome(row);
  link.lastChild.className = row.error ? "bad" : "faint";
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
  const flawed = V.flawed(first.replies);
  const list = V.el("div", { class: "list", tabindex: 0, role: "list" });
  const tall = Math.max(1, first.total * ROW), space = V.el("div");
  space.style.height = `${Math.min(tall, V.TALLEST)}px`;
  list.append(space);
  V.put(main, filters, count, flawed ? V.el("p", { class: "faint", id: "flawed" }, flawed) : null, head, list);
  const parts = new Map([[0, first.rows]]), drawn = new Map(), spare = [], asking = new Set();
  const query = V.href("", asked).slice(2); // with the key
  let at = Number(params.at || 0), inView = list.clientHeight;
  // Of a list that is taller than the page can be, the bar's pixels stand for several.
  const stretch = () => (tall > V.TALLEST ? (tall - inView) / (V.TALLEST - inView) : 1);
  const seen = () => list.scrollTop * stretch();
  const scrollTo = (pixels) => { list.scrollTop = pixels / stretch(); };
  const ask = (part) => {
    if (parts.has(part) || asking.has(part) || asking.size >= AT_ONCE) return;
    asking.add(part);
    V.get("episodes", { ...asked, limit: PART, offset: part * PART }).then((found) => {
      parts.set(part, found.rows);
      asking.delete(part);
      soon();
    }, () => asking.delete(part));
  };
  const forget = (first, last) => {
    for (const part of parts.keys()) if (parts.size > KEPT && (part < first || part > last)) parts.delete(part);
  };
  const draw = () => {
    inView = list.clientHeight;
    const top = seen(), shift = top - list.scrollTop;
    const from = Math.max(0, Math.floor(top / ROW) - 10), to = Math.min(first.total, Math.ceil((top + inView) / ROW) + 10);
    for (const [number, link] of drawn) if (number < from || number >= to) { spare.push(link); drawn.delete(number); }
    forget(Math.floor(from / PART), Math.floor(to / PART));
    for (let number = from; number < to; number++) {
      ask(Math.floor(number / PART));
      const row = parts.get(Math.floor(number / PART))?.[number % PART];
      if (!row) continue;
      let link = drawn.get(number);
      if (!link) {
        link = spare.pop() || V.emptyRow();
        V.fillRow(link, row, number, query);
        drawn.set(number, link);
        if (!link.isConnected) list.append(link);
      }
      link.style.transform = `translateY(${number * ROW - shift}px)`;
      link.classList.toggle("at", number === at);
    }
    for (const link of spare.splice(0)) link.remove();
  };
  let drawing = false;
  const soon = () => { if (!drawing) { drawing = true; requestAnimationFrame(() => { drawing = false; draw(); }); } };
  list.addEventListener("scroll", soon, { passive: true });
  V.keys = {
    j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), G: () => move(first.total), g: () => move(-first.total),
    Enter: () => drawn.get(at)?.click(),
  };
  const move = (by) => {
    at = Math.max(0, Math.min(first.total - 1, at + by));
    if (at * ROW < seen()) scrollTo(at * ROW);
    if ((at + 1) * ROW > seen() + list.clientHeight) scrollTo((at + 1) * ROW - list.clientHeight);
    draw();
  };
  main.addEventListener("shown", () => {
    inView = list.clientHeight;
    scrollTo(Math.max(0, at * ROW - inView / 2));
    draw();
    list.focus({ preventScroll: true });
  });
  V.grown = (total) => { if (!Object.keys(asked).length && total !== first.total) count.replaceChildren(V.shown(`${first.total.toLocaleString("en")} episodes; ${total.toLocaleString("en")} by now: `), V.el("button", { onclick: () => V.render() }, "show")); };
};
