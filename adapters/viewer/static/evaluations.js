"use strict";
// What the episodes of a file or a run amount to, and several such results side by side. Each figure leads to its episodes.

const fixed = (value, digits = 3) => (value === null || value === undefined ? "unknown" : value.toFixed(digits));
const interval = (each) => (each.success === null ? "unknown" : `${fixed(each.success)} (${fixed(each.low)} to ${fixed(each.high)})`);
const amount = (usage, name, digits = 0) => (usage[name] === undefined ? "unknown" : digits ? Number(usage[name].toFixed(digits)).toLocaleString("en") : V.whole(Math.round(usage[name])));
const INVALID = "timeout,verifier_error,env_error";

V.chosen = (params) => { try { const names = JSON.parse(params.with || "[]"); return Array.isArray(names) ? names.map(String) : []; } catch { return []; } };

const time = (seconds) => (seconds === null ? "" : new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " "));
const seconds = (usage) => (usage.model_seconds === undefined && usage.env_seconds === undefined ? null : (usage.model_seconds || 0) + (usage.env_seconds || 0));
const LISTED = [
  ["name", "run or file", (r) => r.name], ["model", "model", (r) => r.model], ["episodes", "episodes", (r) => r.episodes],
  ["success", "success, 95 %", (r) => r.success], ["success_all", "over all", (r) => r.success_all], ["reward", "mean reward", (r) => r.reward],
  ["tokens", "tokens", (r) => r.usage.completion_tokens ?? null], ["cost", "cost", (r) => r.usage.cost ?? null], ["seconds", "seconds", (r) => seconds(r.usage)], ["changed", "last written (UTC)", (r) => r.changed],
];

V.views.evaluations = async (main, route) => {
  const params = route.params, rows = await V.get("evaluations");
  V.follow = true;
  const set = (more) => { V.go("evaluations", { sort: params.sort, with: params.with, ...more }, true); V.render(); };
  const chosen = new Set(V.chosen(params));
  const order = params.sort || "-changed", column = LISTED.find(([name]) => name === order.replace(/^-/, "")) || LISTED[0];
  const sign = order.startsWith("-") ? -1 : 1;
  const missing = (value) => value === null || value === undefined || value === "";
  rows.sort((a, b) => { const [x, y] = [column[2](a), column[2](b)]; return missing(x) - missing(y) || sign * (x > y ? 1 : x < y ? -1 : 0) || (a.name < b.name ? -1 : 1); });
  const head = LISTED.map(([name, label]) => V.el("button", { class: "sort", onclick: () => set({ sort: order === `-${name}` ? name : `-${name}` }) }, label + (order === name ? " ↑" : order === `-${name}` ? " ↓" : "")));
  V.put(main, V.el("div", { class: "filters" }, chosen.size > 1 ? V.el("a", { id: "beside", href: V.href("compare", { with: JSON.stringify([...chosen]) }) }, `set ${chosen.size} side by side`) : V.el("span", { class: "faint" }, "mark two or more to set them side by side")));
  V.put(main, V.table(["", ...head], rows.map((row) => [
    V.el("input", { type: "checkbox", "aria-label": `mark ${row.name}`, checked: chosen.has(row.name), onchange: (e) => { if (e.target.checked) chosen.add(row.name); else chosen.delete(row.name); set({ with: JSON.stringify([...chosen]) }); } }),
    [V.el("a", { href: V.href("evaluation", { source: row.name }) }, row.name), row.run ? V.el("span", { class: "faint" }, " run") : null],
    V.el("td", { class: "long" }, row.model || "unknown"), V.el("a", { href: V.href("episodes", { source: row.name }) }, V.whole(row.episodes)), interval(row), fixed(row.episodes ? row.success_all : null), fixed(row.reward),
    amount(row.usage, "completion_tokens"), amount(row.usage, "cost", 4), seconds(row.usage) === null ? "unknown" : fixed(seconds(row.usage), 1), time(row.changed),
  ]), "figures"));
};

// A row of figures; `asked` are the filters that select its episodes.
const figureRow = (label, each, asked) => {
  const link = (text, more = {}) => V.el("a", { href: V.href("episodes", { ...asked, ...more }) }, text);
  const most = (sort, text) => (text === "unknown" ? text : link(text, { sort: `-${sort}` })); // those with the most first
  const usage = each.usage;
  return [label, link(V.whole(each.episodes)), link(interval(each), { status: "correct" }), each.episodes ? link(fixed(each.success_all), { status: "correct" }) : "unknown",
    each.episodes - each.valid ? link(V.whole(each.episodes - each.valid), { status: INVALID }) : "0", most("reward", fixed(each.reward)), most("turns", fixed(each.turns, 2)),
    each.cut ? link(V.whole(each.cut), { min_cut: 1 }) : "0", each.unread ? link(V.whole(each.unread), { min_unread: 1 }) : "0",
    ...["prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens"].map((name) => most("tokens", amount(usage, name))),
    ...["model_seconds", "env_seconds"].map((name) => most("seconds", amount(usage, name, 1))), most("cost", amount(usage, "cost", 4))];
};
const FIGURES = ["", "episodes", "success, 95 %", "over all", "invalid", "reward", "turns", "cut replies", "not understood", "prompt tokens", "cached", "completion tokens", "reasoning", "s in the model", "s in the environment", "cost"];

const counted = (counts, filter, asked) => Object.entries(counts).map(([name, count]) => V.el("a", { href: V.href("episodes", { ...asked, [filter]: name }) }, `${name.replaceAll("_", " ")} ${V.whole(count)}`));

V.views.evaluation = async (main, route) => {
  const source = route.params.source || "", found = await V.get("evaluation", { source });
  V.follow = true;
  const all = found.figures, asked = { source };
  V.put(main, V.el("div", { class: "filters" }, V.el("a", { href: V.href("evaluations") }, "← evaluations"), V.el("a", { href: V.href("episodes", asked) }, "episodes"), V.el("a", { href: V.href("signs", asked) }, "signs of reward hacking")), V.el("h2", {}, found.name));
  V.put(main, found.agents.length ? found.agents.map((agent) => V.el("div", { class: "facts" },
    [["model", agent.model], ["revision", agent.revision || "unknown"], ["endpoint", agent.endpoint], ...Object.entries(agent.sampling || {}).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)])]
      .filter(([, value]) => value !== undefined && value !== "null").map(([name, value]) => V.el("span", {}, V.el("b", {}, name + " "), value)))) : V.el("p", { class: "faint" }, "model unknown: the records do not name it"));
  const rows = [figureRow(V.el("b", {}, "all"), all, asked)];
  for (const each of found.environments) {
    const [first, second] = each.levels;
    rows.push(figureRow(each.env + (!second && first.level !== null ? `, level ${first.level}` : ""), each.figures, { ...asked, env: each.env }));
    for (const level of second ? each.levels : []) rows.push(figureRow(V.el("span", { class: "faint" }, `level ${level.level ?? "unknown"}`), level.figures, { ...asked, env: each.env, level: level.level }));
  }
  // A column of which nothing is known says so once.
  const known = FIGURES.map((_, i) => rows.some((row) => row[i] !== "unknown"));
  V.put(main, V.table(FIGURES.filter((_, i) => known[i]), rows.map((row) => row.filter((_, i) => known[i])), "figures"));
  const unknown = FIGURES.filter((_, i) => !known[i]);
  if (unknown.length) V.put(main, V.el("p", { class: "faint" }, `unknown: ${unknown.join(", ")}`));
  if (found.suite) V.put(main, V.el("p", { id: "mean" }, `mean over ${found.environments.length} environments: ${interval(found.suite)}`));
  const several = Object.entries(all.pass_at).length > 1 ? [...Object.entries(all.pass_at).map(([k, share]) => `pass@${k} ${fixed(share)}`), ...Object.entries(all.pass_all).filter(([k]) => k > 1).map(([k, share]) => `pass^${k} ${fixed(share)}`)] : [];
  const line = (name, parts) => (parts.length ? V.el("div", { class: "facts" }, V.el("b", {}, name), parts.map((part) => V.el("span", {}, part))) : null);
  V.put(main, line("samples", several), line("verdicts", counted(all.statuses, "status", asked)), line("replies", [`${V.whole(all.replies)} in all`, ...counted(all.flaws, "flaw", asked)]));
  V.put(main, all.warnings.map((text) => V.el("p", { class: "bad" }, text)));
  // The longest piece of a cause without a number finds its episodes.
  const piece = (cause) => cause.split("#").reduce((best, each) => (each.trim().length > best.length ? each.trim() : best), "");
  const causes = [...all.invalid_causes.map((each) => ["invalid", each]), ...all.provoked.map((each) => ["provoked", each])];
  if (causes.length) V.put(main, V.el("h2", {}, "Faults by cause"), V.table(["", "status", "cause", "episodes"], causes.map(([kind, each]) => [
    kind, each.status, V.text(each.cause), V.el("a", { href: V.href("episodes", { ...asked, status: each.status, ...(kind === "invalid" ? { error: piece(each.cause) } : {}) }) }, V.whole(each.episodes))])));
  V.put(main, V.el("h2", {}, "Tasks"), V.table(["environment", "rows, settings and code"], found.environments.map((each) => [each.env, each.digests.length ? each.digests.map((digest) => V.el("div", {}, digest)) : "unknown"])));
  const options = Object.entries(found.options);
  if (options.length) V.put(main, V.el("details", {}, V.el("summary", {}, "options of rlvr eval"), V.table(["option", "value"], options)));
  V.keys = { u: () => V.go("evaluations"), Enter: () => V.go("episodes", asked) };
};

const difference = (value, ends) => `${value >= 0 ? "+" : ""}${fixed(value)} ${ends[0] === null ? "(no interval)" : `(95 % ${fixed(ends[0])} to ${fixed(ends[1])})`}`;

V.views.compare = async (main, route) => {
  const names = V.chosen(route.params), { table, pairs } = await V.get("compare", names.map((name) => ["source", name]));
  V.follow = true;
  const cell = (agent, env) => { const each = table.results.find((result) => result.agent === agent && result.env === env); return each ? V.el("a", { href: V.href("episodes", { source: agent, env }) }, interval(each)) : "–"; };
  V.put(main, V.el("div", { class: "filters" }, V.el("a", { href: V.href("evaluations", { with: route.params.with }) }, "← evaluations")),
    V.table(["environment", ...table.agents.map((name) => V.el("a", { href: V.href("evaluation", { source: name }) }, name))], table.envs.map((env) => [env, ...table.agents.map((agent) => cell(agent, env))])),
    table.notes.map((note) => V.el("p", { class: "bad" }, note)));
  for (const pair of pairs) {
    V.put(main, V.el("h2", {}, `${pair.b} against ${pair.a}`));
    if (pair.error) { V.put(main, V.el("p", { class: "bad" }, pair.error)); continue; }
    const row = (label, each, gained, lost) => [label, each.tasks, fixed(each.success_a), fixed(each.success_b), difference(each.success, each.success_interval), difference(each.reward, each.reward_interval), gained, lost];
    V.put(main, V.table(["", "tasks in both", "A", "B", "success, B - A", "reward, B - A", "gained", "lost"], [
      row(V.el("b", {}, "all"), pair, pair.gained, pair.lost), ...Object.entries(pair.environments).map(([env, each]) => row(env, each, each.gained, each.lost))], "figures"));
    for (const [way, label] of [["gained_tasks", "Tasks that B solves more often"], ["lost_tasks", "Tasks that B solves less often"]]) {
      if (!pair[way].length) continue;
      const total = pair[way.replace("_tasks", "")];
      V.put(main, V.el("h3", {}, `${label}: ${V.whole(total)}${total > pair[way].length ? `, the first ${pair[way].length}` : ""}`), V.el("div", { class: `facts ${way}` }, pair[way].map((task) =>
        V.el("a", { href: V.href(`difference/${task.episodes.join("/")}`) }, `${task.env}${task.level === null ? "" : ` level ${task.level}`} ${task.index === null ? `seed ${task.seed}` : `task ${task.index}`}`))));
    }
  }
  V.keys = { u: () => V.go("evaluations", { with: route.params.with }) };
};
