"use strict";
// An episode that goes on from a turn of a recorded one, by hand or with an agent.

V.forkButton = (id) => (turn) => V.el("div", { class: "fork" }, V.el("button", { title: "play this turn and what follows anew", onclick: async (event) => {
  event.target.disabled = true;
  try {
    const { name } = await V.get(`fork/${id}`, {}, "POST", { turn });
    V.go(`fork/${name}`);
  } catch (error) {
    event.target.replaceWith(V.el("span", { class: "error" }, error.message));
  }
} }, `fork from here (turn ${turn})`));

V.views.fork = async (main, route) => {
  const name = route.rest[0];
  const show = (found) => {
    const wrong = V.el("span", { class: "error", id: "refused" });
    const head = V.el("div", { class: "filters" }, V.el("a", { href: V.href(`episode/${found.origin}`) }, "← episode"),
      V.el("span", { class: "faint" }, `${found.env}, from turn ${found.turn} on${found.by.length ? ", played by " + found.by.join(", ") : ""}`));
    const play = async (sent) => {
      for (const each of main.querySelectorAll("#play button")) each.disabled = true;
      try { show(await V.get(`forks/${name}`, {}, "POST", sent)); }
      catch (error) { wrong.replaceChildren(V.shown(error.message)); for (const each of main.querySelectorAll("#play button")) each.disabled = false; }
    };
    const text = V.el("textarea", { id: "action", rows: 4, placeholder: "your action; Ctrl+Enter plays it", "aria-label": "action",
      onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) play({ action: text.value }); } });
    const end = V.el("div", { class: "facts", id: "outcome" }, V.el("b", { class: found.status === "correct" ? "good" : "bad" }, found.status), V.el("span", {}, `reward ${V.figure(found.reward)}`), V.el("span", {}, found.reason), V.el("span", { class: "faint" }, `written to ${found.file}`));
    main.replaceChildren(head, V.conversation(found.messages), found.done ? end : V.el("div", { id: "play" }, text,
      V.el("div", { class: "filters" }, V.el("button", { onclick: () => play({ action: text.value }) }, "play this action"),
        found.agents.map((agent) => V.el("button", { onclick: () => play({ agent }) }, `let ${agent} play on`)), wrong)));
    if (!found.done) text.focus();
  };
  show(await V.get(`forks/${name}`));
  V.keys = { u: () => document.querySelector("main .filters a")?.click() };
};
