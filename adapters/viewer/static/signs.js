"use strict";
// What is rewarded again and again although the tasks differ: a question about the grader, not a proof.

V.examples = (ids) => ids.map((id, at) => [at ? " " : "", V.el("a", { href: V.href(`episode/${id}`) }, String(id))]);

V.table = (heads, rows, kind = "") => V.el("div", { class: "scroll" }, V.el("table", { class: kind }, V.el("tr", {}, heads.map((head) => V.el("th", {}, head))), rows.map((row) => V.el("tr", {}, row.map((cell) => (cell instanceof Node && cell.tagName === "TD" ? cell : V.el("td", {}, cell)))))));

const part = (share) => (share === null ? "–" : `${V.figure(100 * share, 3)} %`);
const quoted = (text) => V.el("td", {}, V.text(text || "(nothing)"));

V.signs = {
  clusters: (found) => V.table(["", "what", "text", "rewarded on", "of its tasks", "of all tasks", "other replies", "by luck", "episodes"], found.map((c) => [
    c.suspicious ? V.el("b", { class: "bad" }, "look") : "", c.kind, quoted(c.text), c.rewarded, part(c.rewarded / c.tasks), part(c.share), part(c.others), c.chance === null ? "–" : V.figure(c.chance, 2), V.examples(c.examples)])),
  phrases: (found) => V.table(["phrase", "rewarded replies", "other replies", "z", "episodes"], found.map((p) => [
    quoted(p.text), `${p.rewarded} (${part(p.rewarded_share)})`, `${p.others} (${part(p.others_share)})`, V.figure(p.z, 3), V.examples(p.examples)])),
  shortest: (found) => V.table(["text", "length", "of the median", "reward", "episode"], found.map((s) => [quoted(s.text), s.length, part(s.of_median), V.figure(s.reward), V.examples([s.id])])),
  repetitive: (found) => V.table(["repeats", "share of repeated words", "episode"], found.map((r) => [quoted(r.phrase), part(r.share), V.examples([r.id])])),
  lengths: (found) => V.table(["length", "episodes", "mean reward", "rewarded"], found.map((b) => [
    b.shortest === b.longest ? V.figure(b.shortest) : `${V.figure(b.shortest)} to ${V.figure(b.longest)}`, b.episodes.toLocaleString("en"), V.figure(b.reward, 3), V.el("td", {}, V.el("meter", { min: 0, max: 1, value: b.rewarded }), ` ${part(b.rewarded)}`)])),
  faults: (found) => V.table(["status", "cause", "episodes", ""], found.map((f) => [V.el("span", { class: "bad" }, f.status), quoted(f.cause), f.episodes.toLocaleString("en"), V.examples(f.examples)])),
};

const SIGNS = [
  ["clusters", "One answer for many tasks", "An answer or reply that is rewarded on several tasks. “look” where other replies are rewarded so much less that luck does not explain it, or where it is paid on most tasks."],
  ["phrases", "Phrases of rewarded replies", "Runs of words that stand in rewarded replies more often than in others."],
  ["shortest", "The shortest rewarded replies", "Each text once, those that are short for their environment first."],
  ["repetitive", "Rewarded replies that repeat themselves", "The share of their runs of four words that have occurred before."],
  ["lengths", "Reward by length", ""],
  ["faults", "Faults by cause", "Episodes that count for nothing: the fault was the environment's, the grader's or the machine's. Numbers are left out of the causes."],
];

V.views.signs = async (main, route) => {
  const params = route.params, asked = V.asked(params);
  const [offered, found] = await Promise.all([V.get("choices"), V.get("signs", asked)]);
  const set = (more) => { V.go("signs", { ...asked, ...more }, true); V.render(); };
  if (!V.embedded()) V.put(main, V.el("div", { class: "filters" }, ["source", "phase", "env", "split", "level"].filter((name) => (offered[name] || []).length > 1 || params[name]).map((name) =>
    V.el("select", { "aria-label": name, onchange: (e) => set({ [name]: e.target.value }) }, V.el("option", { value: "" }, name),
      offered[name].map(([value, count]) => V.el("option", { value, selected: String(value) === params[name] }, `${value} (${count.toLocaleString("en")})`))))));
  V.put(main, V.el("p", { class: "faint" }, `${found.episodes.toLocaleString("en")} episodes, ${found.judged.toLocaleString("en")} judged, ${found.rewarded.toLocaleString("en")} rewarded; phrases were looked for in ${found.read.toLocaleString("en")}. A sign is a question and no proof: where the answer is yes or no, one answer is right on half of the tasks.`));
  for (const [name, title, note] of SIGNS) {
    const more = name === "lengths" && found.correlation !== null ? `Rank correlation of length and reward: ${V.figure(found.correlation, 3)}.` : note;
    V.put(main, V.el("h2", { id: `signs-${name}` }, title), more ? V.el("p", { class: "faint" }, more) : null, found[name].length ? V.signs[name](found[name]) : V.el("p", {}, "None."));
  }
  V.keys = { u: () => V.go("episodes", asked) };
};
