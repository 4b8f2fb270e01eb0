"use strict";
// One episode as a conversation, its group, and the difference of two.

// How replies end that ended by themselves, in the words of several tools.
const ENDED = ["stop", "tool_calls", "function_call", "tool_use", "end_turn", "stop_sequence"];

V.message = (message, texts, paired = []) => {
  const role = message.role;
  const tags = [V.el("b", {}, role), message.example ? V.el("span", { class: "faint" }, "of a worked example") : null];
  if (message.expert) tags.push(V.el("span", { class: "faint" }, "played by the expert"));
  if (Number.isFinite(message.value)) tags.push(V.el("span", {}, `value before ${V.figure(message.value)}`));
  if (Number.isFinite(message.measured)) tags.push(V.el("span", {}, `measured advantage ${V.figure(message.measured)}`));
  if (Number.isFinite(message.advantage)) tags.push(V.el("span", {}, `given advantage ${V.figure(message.advantage)}`));
  if (message.reward !== null && message.reward !== undefined) tags.push(V.el("span", {}, `reward ${V.figure(message.reward)}`));
  // What a turn on the way earned says nothing against it: a call that was made right is no fault.
  if (message.status) tags.push(V.el("span", { class: message.status === "correct" ? "good" : message.status === "partial" ? "faint" : "bad" }, `${message.status}${message.reason ? ": " + message.reason : ""}`));
  if (message.stop && !ENDED.includes(message.stop)) tags.push(V.el("span", { class: "bad" }, `stopped: ${message.stop}`));
  if (message.flaw) tags.push(V.el("span", { class: "bad" }, message.flaw.replaceAll("_", " ")));
  const known = ["system", "user", "assistant", "tool", "environment"].includes(role) ? role : "other";
  const body = [];
  if (message.reasoning) body.push(V.el("details", { class: "thinking" }, V.el("summary", {}, `thinking, ${message.reasoning.length.toLocaleString("en")} characters`), V.text(message.reasoning)));
  if (message.text.trim() || (!message.calls.length && !message.images.length)) body.push(V.draws() && role !== "tool" ? V.markdown(message.text) : V.text(message.text));
  for (const [index, call] of message.calls.entries()) {
    const result = paired[index];
    body.push(V.el("div", { class: "call" }, V.el("b", {}, call.name || "call"), V.text(call.arguments), result ? V.el("details", { open: true }, V.el("summary", { class: result.status === "error" ? "bad" : "" }, result.status === "error" ? `error${result.reason ? ": " + result.reason : ""}` : "result"), V.text(result.text), V.images(result)) : null));
  }
  body.push(V.images(message));
  const whole = V.el("div", { class: `message ${known}` }, V.el("div", { class: "role" }, tags));
  if (role === "system") V.put(whole, V.el("details", {}, V.el("summary", {}, `system prompt, ${message.text.length.toLocaleString("en")} characters`), body));
  else V.put(whole, body);
  return whole;
};

// The server has checked that these are pixels; a second look costs nothing.
V.images = (message) => message.images.filter((url) => /^data:image\/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+=*$/.test(url)).map((url) => V.el("img", { src: url, alt: "the observation's image" }));

V.conversation = (messages, fork = null) => {
  const shown = V.el("div");
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at];
    const paired = [];
    // Results stand beside their calls: by id where there is one, else in their order.
    if (message.calls.length) {
      let next = at + 1;
      const results = [];
      while (next < messages.length && messages[next].role === "tool") results.push(messages[next++]);
      if (results.length && results.length <= message.calls.length) {
        message.calls.forEach((call, index) => { paired[index] = results.find((r) => r.call_id && r.call_id === call.id) || (results[index]?.call_id ? undefined : results[index]); });
        if (paired.filter(Boolean).length === results.length) at = next - 1; else paired.length = 0;
      }
    }
    if (fork && message.role === "assistant" && !message.example) shown.append(fork(message.turn));
    shown.append(V.message(message, null, paired));
  }
  return shown;
};

// What goes on from what, as a list in a list.
V.tree = (nodes) => V.el("ul", { class: "tree" }, nodes.map(({ label, nodes }) => V.el("li", {}, label, nodes.length ? V.tree(nodes) : null)));

// The conversations of an episode: where each goes on from another one, and below it what is its own.
V.branches = (main, { messages, branches }, params, path, fork) => {
  let turn = 0;
  for (const message of messages) if (message.role === "assistant" && !message.example) message.turn = turn++;
  if (branches.length < 2) return V.put(main, V.conversation(messages, fork));
  const of = branches.map((_, at) => messages.filter((message) => message.branch === at));
  const link = (at) => V.el("a", { href: V.href(path, { ...params, branch: at }) }, branches[at].name);
  const parent = ({ follows }) => (follows < 0 ? null : messages[follows].branch);
  const since = (branch) => (parent(branch) === null ? "from its own beginning" : ["goes on from message ", String(of[parent(branch)].indexOf(messages[branch.follows]) + 1), " of ", link(parent(branch))]);
  const before = (branch) => (parent(branch) === null ? [] : [...before(branches[parent(branch)]), ...of[parent(branch)].slice(0, of[parent(branch)].indexOf(messages[branch.follows]) + 1)]);
  const below = (from) => branches.flatMap((branch, at) => (parent(branch) === from ? [{ label: [link(at), V.el("span", { class: "faint" }, ` ${V.whole(of[at].length)} messages`, from === null ? "" : `, from message ${of[from].indexOf(messages[branch.follows]) + 1} on`, `: ${(of[at][0]?.text || "").slice(0, 60)}`)], nodes: below(at) }] : []));
  V.put(main, V.el("nav", { id: "branches" }, V.tree(below(null))));
  branches.forEach((branch, at) => {
    const earlier = before(branch), fold = V.el("details", { ontoggle: () => { if (fold.open && fold.children.length < 2) fold.append(V.conversation(earlier)); } }, V.el("summary", {}, `${V.whole(earlier.length)} messages before`));
    V.put(main, V.el("h2", { id: `branch-${at}` }, branch.name, V.el("span", { class: "faint" }, ", ", since(branch))), earlier.length ? fold : null, V.conversation(of[at], fork));
  });
  main.addEventListener("shown", () => params.branch && document.getElementById(`branch-${params.branch}`)?.scrollIntoView());
  V.keys.b = () => V.go(path, { ...params, branch: (Number(params.branch || 0) + 1) % branches.length });
};

V.forkTree = (node, id) => ({
  label: [V.el(node.uid === id ? "b" : "a", node.uid === id ? {} : { href: V.href(`episode/${node.uid}`) }, `${node.source} ${node.number + 1}`), " ", V.el("span", { class: V.outcome(node) }, node.status), ` ${V.figure(node.reward)}`, V.el("span", { class: "faint" }, ` ${V.whole(node.turns)} turns`)],
  nodes: node.forks.map((each) => V.forkTree(each, id)),
});

V.facts = (row, trace) => V.el("div", { class: "facts" }, [
  ["status", row.status], ["reward", V.figure(row.reward)], ["reason", trace.reason], ["answer", trace.answer], ["error", trace.error],
  ...Object.entries(trace.parts).map(([name, value]) => [name, V.figure(value)]),
  ["environment", row.env], ["split", row.split], ["level", row.level], ["step", row.step], ["sample", row.sample], ["tokens", row.tokens || ""], ["from", row.source],
  ["model", trace.agent.model], ["revision", trace.agent.revision], ...Object.entries(trace.usage).map(([name, value]) => [name.replaceAll("_", " "), V.figure(value)]),
].filter(([, value]) => value !== "" && value !== null && value !== undefined).map(([name, value]) => V.el("span", {}, V.el("b", {}, name + " "), value)));

V.views.episode = async (main, route) => {
  const params = route.params;
  const found = await V.get(`episode/${route.rest[0]}`);
  const { row, trace } = found, id = row.uid;
  if (route.rest[0] !== id) V.go(`episode/${id}`, params, true); // a number lasts as long as the index
  const at = Number(params.at ?? -1), asked = V.asked(params);
  const step = async (by) => {
    if (at + by < 0) return;
    const { rows } = await V.get("episodes", { ...asked, limit: 1, offset: at + by }).catch(() => ({ rows: [] }));
    if (rows.length) V.go(`episode/${rows[0].uid}`, { ...asked, at: at + by, show: params.show });
  };
  const tab = (name, label) => V.el("a", { class: (params.show || "chat") === name ? "here" : "", href: V.href(`episode/${id}`, { ...params, show: name === "chat" ? "" : name }) }, label);
  const buttons = V.el("div", { class: "filters" }, V.el("a", { href: V.href("episodes", { ...asked, at: at >= 0 ? at : "" }) }, "← list"),
    at >= 0 ? [V.el("button", { onclick: () => step(-1) }, "previous (p)"), V.el("button", { onclick: () => step(1) }, "next (n)")] : null,
    tab("chat", "conversation"), found.tokens ? tab("tokens", "tokens (t)") : null, tab("record", "more fields"),
    found.group.length > 1 ? V.el("a", { href: V.href(`group/${id}`) }, `group of ${found.group.length} (g)`) : null,
    V.marked && V.marked !== id ? V.el("a", { href: V.href(`difference/${V.marked}/${id}`) }, "difference to the marked one (d)") : null,
    V.el("button", { onclick: () => { V.marked = id; V.render(); } }, V.marked === id ? "marked" : "mark (m)"),
    V.el("button", { onclick: (e) => V.copy(id, e.target) }, "copy record (y)"),
    V.el("button", { onclick: V.turnDrawing }, V.draws() ? "show Markdown as text (r)" : "draw Markdown (r)"),
    V.canGrade && trace.source === "rlvr" ? V.el("button", { onclick: (e) => V.grade(id, e.target) }, "grade again") : null);
  V.put(main, buttons, V.facts(row, trace));
  if (found.origin) V.put(main, V.el("p", {}, `goes on from turn ${found.origin.turn} of `, found.origin.id ? V.el("a", { href: V.href(`episode/${found.origin.id}`) }, "the episode") : found.origin.key, `, played by ${found.origin.by.join(", ")}`));
  if (found.forks) V.put(main, V.el("nav", { id: "forks" }, V.tree([V.forkTree(found.forks, id)])));
  const same = found.elsewhere;
  if (same.length) V.put(main, V.el("details", {}, V.el("summary", {}, `the same task ${same.length === 1 ? "once" : `${same.length} times`} elsewhere`), V.el("table", {}, same.map((each) =>
    V.el("tr", {}, V.el("td", {}, each.source), V.el("td", {}, each.phase), V.el("td", {}, each.step ?? ""), V.el("td", { class: V.outcome(each) }, each.status), V.el("td", {}, V.figure(each.reward)),
      V.el("td", {}, V.el("a", { href: V.href(`episode/${each.uid}`) }, "open"), " ", V.el("a", { href: V.href(`difference/${id}/${each.uid}`) }, "difference")))))));
  if (params.show === "tokens" && found.tokens) {
    const tokens = await V.get(`tokens/${id}`);
    V.put(main, tokens.problems.map((problem) => V.el("p", { class: "error" }, problem)));
    V.tokens(main, tokens, params, `episode/${id}`);
  }
  else if (params.show === "record") V.put(main, trace.tools ? [V.el("h2", {}, "tools"), V.text(trace.tools)] : null, V.text(JSON.stringify(trace.notes, null, 1)));
  V.keys = {
    ...(params.show === "tokens" && found.tokens ? V.tokenKeys : {}),
    n: () => step(1), p: () => step(-1), j: () => step(1), k: () => step(-1), u: () => V.go("episodes", { ...asked, at: at >= 0 ? at : "" }),
    g: () => found.group.length > 1 && V.go(`group/${id}`), m: () => { V.marked = id; V.render(); }, d: () => V.marked && V.marked !== id && V.go(`difference/${V.marked}/${id}`),
    t: () => found.tokens && V.go(`episode/${id}`, { ...params, show: params.show === "tokens" ? "" : "tokens" }),
    y: () => V.copy(id), r: V.turnDrawing,
    o: () => document.querySelectorAll("main details").forEach((each) => { each.open = !each.open; }),
  };
  if (!["tokens", "record"].includes(params.show)) V.branches(main, trace, params, `episode/${id}`, V.canFork && trace.source === "rlvr" ? V.forkButton(id) : null);
};

// The record as its file holds it, to the clipboard.
V.copy = async (id, button = null) => {
  const say = (text) => { if (button) V.say(button, text); document.getElementById("progress")?.replaceChildren(V.shown(text)); };
  try {
    await navigator.clipboard.writeText(JSON.stringify(await V.get(`record/${id}`)));
    say("copied");
  } catch (error) { say(error.message); }
};

V.draws = () => { try { return localStorage.getItem("markdown") === "drawn"; } catch { return V.drawing; } };
V.turnDrawing = () => { V.drawing = !V.draws(); try { localStorage.setItem("markdown", V.drawing ? "drawn" : "text"); } catch { /* a file may have no storage */ } V.render(); };

V.grade = async (id, button) => {
  button.disabled = true;
  try {
    const { before, after, changed, same_task } = await V.get(`regrade/${id}`, {}, "POST");
    const verdict = (v) => `${v.status} ${V.figure(v.reward)}${v.reason ? ": " + v.reason : ""}`;
    button.replaceWith(V.el("span", { class: changed ? "bad" : "good", id: "graded" }, changed ? `${verdict(before)} → ${verdict(after)}` : `graded again: ${verdict(after)}, as recorded`, same_task ? "" : " (its task is another one now)"));
  } catch (error) {
    button.replaceWith(V.el("span", { class: "error", id: "graded" }, error.message));
  }
};

V.views.group = async (main, route) => {
  const id = route.rest[0];
  const found = await V.get(`group/${id}`);
  const shared = found.shared_characters;
  V.put(main, V.el("div", { class: "filters" }, V.el("a", { href: V.href(`episode/${id}`) }, "← episode")),
    V.el("p", {}, `${found.samples.length} samples of one task. Rewards: ${found.samples.map((s) => V.figure(s.row.reward)).join(", ")}. `,
      found.samples.length > 1 ? `They share their first ${shared.toLocaleString("en")} characters${found.first_differing_token === null ? "" : `; token ${found.first_differing_token} of what was sampled is the first that differs`}.` : ""),
    V.conversation(found.prompt),
    V.el("div", { class: "columns" }, found.samples.map((sample) => {
      const text = sample.text, point = [...text.slice(shared)][0] || "";
      const body = V.el("pre", { class: "text" }, V.el("span", { class: "shared" }, text.slice(Math.max(0, shared - 4000), shared)),
        found.samples.length > 1 ? V.el("span", { class: "differs" }, point || "∎") : null);
      V.put(body, V.text(text.slice(shared + point.length), "span", ""));
      return V.el("div", { class: "sample" }, V.el("div", { class: "facts" }, V.el("a", { href: V.href(`episode/${sample.row.uid}`) }, `sample ${sample.row.sample}`),
        V.el("span", { class: V.outcome(sample.row) }, sample.row.status), V.el("span", {}, V.figure(sample.row.reward)), V.el("span", { class: "faint" }, sample.reason)), body);
    })));
  V.keys = { u: () => V.go(`episode/${id}`) };
};

// Myers' difference of two lists; null where more than `most` changes lie between them.
V.difference = (a, b, most = 1500) => {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const x = a.slice(start, a.length - end), y = b.slice(start, b.length - end);
  const result = a.slice(0, start).map((each) => ["", each]);
  const tail = a.slice(a.length - end).map((each) => ["", each]);
  const trail = [], reach = new Map([[1, 0]]);
  for (let d = 0; d <= Math.min(x.length + y.length, most); d++) {
    trail.push(new Map(reach));
    for (let k = -d; k <= d; k += 2) {
      let i = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1)) ? reach.get(k + 1) : reach.get(k - 1) + 1;
      while (i < x.length && i - k < y.length && x[i] === y[i - k]) i++;
      reach.set(k, i);
      if (i >= x.length && i - k >= y.length) {
        const steps = [];
        let [p, q] = [x.length, y.length];
        for (let back = d; back >= 0; back--) {
          const before = trail[back], diagonal = p - q;
          const from = diagonal === -back || (diagonal !== back && (before.get(diagonal - 1) ?? -1) < (before.get(diagonal + 1) ?? -1)) ? diagonal + 1 : diagonal - 1;
          const [r, s] = [before.get(from), before.get(from) - from];
          while (p > Math.max(r, 0) && q > Math.max(s, 0)) { steps.push(["", x[--p]]); q--; }
          if (back > 0) { if (p === r) steps.push(["ins", y[--q]]); else steps.push(["del", x[--p]]); }
        }
        return [...result, ...steps.reverse(), ...tail];
      }
    }
  }
  return [...result, ["del", x.join("")], ["ins", y.join("")], ...tail];
};

V.views.difference = async (main, route) => {
  const [a, b] = await Promise.all(route.rest.slice(0, 2).map((id) => V.get(`episode/${id}`)));
  V.put(main, V.el("div", { class: "columns" }, [[a, "before"], [b, "after"]].map(([each, name]) => V.el("div", { class: "sample" }, V.el("b", {}, name + " "), V.el("a", { href: V.href(`episode/${each.row.uid}`) }, `${each.row.source} ${each.row.number + 1}`), V.facts(each.row, each.trace)))));
  const text = (message) => (message ? `${message.reasoning ? `<think>${message.reasoning}</think>` : ""}${message.text}${message.calls.map((call) => `\n→ ${call.name}(${call.arguments})`).join("")}` : "");
  const length = Math.max(a.trace.messages.length, b.trace.messages.length);
  let parted = false;
  for (let at = 0; at < length; at++) {
    const [m, n] = [a.trace.messages[at], b.trace.messages[at]];
    const before = text(m), after = text(n);
    const role = (m || n).role, box = V.el("div", { class: `message ${["assistant", "tool"].includes(role) ? role : "other"}` }, V.el("div", { class: "role" }, role));
    if (before === after) V.put(box, V.el("details", {}, V.el("summary", {}, `the same, ${before.length.toLocaleString("en")} characters`), V.text(before)));
    else {
      const pieces = V.difference(before.split(/(\s+)/), after.split(/(\s+)/));
      if (!parted) {
        const other = [...after], upTo = [...before].findIndex((letter, i) => letter !== other[i]);
        V.put(main, V.el("p", { id: "parted" }, `They part in message ${at + 1}, after ${(upTo < 0 ? [...before].length : upTo).toLocaleString("en")} characters.`));
        parted = true;
      }
      V.put(box, V.el("pre", { class: "text" }, pieces.map(([kind, word]) => (kind ? V.el(kind, {}, word) : word))));
    }
    main.append(box);
  }
};
