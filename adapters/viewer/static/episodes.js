"use strict";
// The list of episodes: as many rows are in the page as can be seen, however many there are.

const ROW = 28, PART = 100;
const AT_ONCE = 2; // parts that are asked for at a time, so that what was scrolled past is not waited for
const KEPT = 40; // parts that are held
V.TALLEST = 1e7; // pixels: browsers cut off what is much taller
const CHOICES = [["source", "run or file"], ["phase", "phase"], ["model", "model"], ["env", "environment"], ["split", "split"], ["level", "level"], ["status", "status"], ["stop", "stop reason"], ["tool", "tool"]];
const LIMITS = [["min_reward", "reward from"], ["max_reward", "to"], ["min_step", "step from"], ["max_step", "to"], ["min_characters", "length from"], ["max_characters", "to"]];
V.FILTERS = [...CHOICES.map(([name]) => name), ...V.RANGES.flatMap((name) => [`min_${name}`, `max_${name}`]), "flaw", "q", "error", "sort", "task", "grp"];

V.asked = (params) => Object.fromEntries(V.FILTERS.filter((name) => params[name]).map((name) => [name, params[name]]));

V.outcome = (row) => (row.success === 1 ? "good" : row.success === 0 ? "bad" : "faint");

// Of each column its head, its width, how it is sorted, its text, and whether the list needs it; all but four are left
// out on narrow screens.
const COLUMNS = [
  ["status", "7rem", "status", (row) => row.status || "–", () => true], ["reward", "4rem", "reward", (row) => V.figure(row.reward), () => true],
  ["source", "9rem", "source", (row) => row.source, (rows, offered) => offered.source?.length > 1], ["phase", "6rem", "", (row) => row.phase ?? "", (rows, offered) => offered.phase?.length > 1],
  ["step", "3rem", "step", (row) => row.step ?? "", (rows) => rows.some((row) => row.step !== null)], ["environment", "12rem", "env", (row) => row.env, (rows, offered) => offered.env?.length > 1],
  ["level", "3rem", "", (row) => row.level ?? "", (rows) => rows.some((row) => row.level !== null)], ["model", "8rem", "model", (row) => row.model, (rows, offered) => offered.model?.length > 1],
  ["tokens", "4.5rem", "tokens", (row) => (row.tokens ? V.whole(row.tokens) : ""), (rows) => rows.some((row) => row.tokens)], ["time", "4.5rem", "seconds", (row) => (row.seconds === null ? "" : `${V.figure(row.seconds, 3)} s`), (rows) => rows.some((row) => row.seconds !== null)],
  ["length", "5rem", "characters", (row) => V.whole(row.characters), () => true], ["text", "minmax(0, 1fr)", "", (row) => row.error || row.preview, () => true],
];
const NARROW = ["status", "reward", "step", "text"];
const wide = ([name]) => (NARROW.includes(name) ? "" : "wide");

// A row is made once and filled again and again while the list is scrolled.
V.emptyRow = (columns) => V.el("a", { class: "row" }, columns.map((column) => V.el("span", { class: wide(column) })));

V.fillRow = (link, row, number, query, columns) => {
  link.href = `#/episode/${row.uid}${query ? query + "&" : "?"}at=${number}`;
  link.dataset.at = number;
  columns.forEach(([, , , text], i) => V.say(link.children[i], String(text(row))));
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
  const first = await V.get("episodes", { ...asked, limit: PART, offset: 0 });
  const columns = COLUMNS.filter(([, , , , needed]) => needed(first.rows, offered));
  const sorted = (name) => (params.sort === name ? " ↑" : params.sort === `-${name}` ? " ↓" : "");
  const head = V.el("div", { class: "head row" }, columns.map(([name, , sort, , ], i) => V.el("span", { class: wide(columns[i]) }, sort ? V.el("button", { class: "sort", onclick: () => set({ sort: params.sort === `-${sort}` ? sort : `-${sort}` }) }, name + sorted(sort)) : name)));
  main.style.setProperty("--columns", columns.map(([, width]) => width).join(" "));
  main.style.setProperty("--narrow", columns.filter((column) => !wide(column)).map(([, width]) => width).join(" "));
  const count = V.el("p", { class: "faint", id: "count" }, `${first.total.toLocaleString("en")} episodes`);
  const flawed = V.el("p", { class: "faint", id: "flawed" }, V.flawed(first.replies));
  const list = V.el("div", { class: "list", tabindex: 0, role: "list" });
  const space = V.el("div");
  let tall;
  const grow = () => {
    tall = Math.max(1, first.total * ROW);
    space.style.height = `${Math.min(tall, V.TALLEST)}px`;
  };
  grow();
  list.append(space);
  V.put(main, filters, count, flawed, head, list);
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
        link = spare.pop() || V.emptyRow(columns);
        V.fillRow(link, row, number, query, columns);
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
  // What comes later is added where it stands; of a list in another order all is asked for again.
  let known = V.state?.version, asking_again = false;
  V.grown = async () => {
    if (V.state.version === known || asking_again) return;
    asking_again = true;
    try {
      known = V.state.version;
      const now = await V.get("episodes", { ...asked, limit: PART, offset: 0 });
      const same = !params.sort && now.total >= first.total && now.rows[0]?.uid === first.rows[0]?.uid;
      for (const part of [...parts.keys()]) if (!same || (part + 1) * PART > first.total) parts.delete(part);
      if (!same) for (const [number, link] of drawn) { link.remove(); drawn.delete(number); }
      parts.set(0, now.rows);
      [first.total, first.rows] = [now.total, now.rows];
      V.say(count, `${first.total.toLocaleString("en")} episodes`);
      V.say(flawed, V.flawed(now.replies));
      grow();
      soon();
    } catch { known = null; } finally { asking_again = false; }
  };
};
