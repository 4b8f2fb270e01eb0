"use strict";
// The frame of all pages: navigation, keys, what could not be read, and what is new.

const HELP = [["/", "search"], ["j k ↓ ↑", "next, previous row"], ["Enter", "open the episode"], ["n p", "next, previous episode"], ["t", "tokens"], ["← →", "walk over tokens"], ["g", "the episode's group; first row of a list"], ["m d", "mark an episode, difference to the marked one"], ["y", "copy the record as JSON"], ["r", "Markdown and mathematics, as text or drawn"], ["b", "next conversation of several"], ["o", "unfold everything"], ["u Esc", "back"], ["1 2 3 4", "runs, evaluations, episodes, signs of reward hacking"], ["?", "this help"]];

V.bar = (route) => {
  const link = (view, label) => V.el("a", { class: route.view === view ? "here" : "", href: V.href(view) }, label);
  const turn = () => {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* a file may have no storage */ }
  };
  document.getElementById("bar").replaceChildren(V.el("b", {}, "rlvr view"), link("runs", "Runs"), link("evaluations", "Evaluations"), link("episodes", "Episodes"), link("signs", "Signs"), V.el("span", { class: "grow" }), V.el("span", { class: "faint", id: "progress" }), V.el("button", { onclick: turn, "aria-label": "dark or light" }, "◐"), V.el("button", { onclick: V.help, "aria-label": "keys" }, "?"));
  V.tell();
};

V.help = () => {
  const dialog = V.el("dialog", { id: "help" }, V.el("h2", {}, "Keys"), V.el("table", {}, HELP.map(([key, what]) => V.el("tr", {}, V.el("td", {}, V.el("b", {}, key)), V.el("td", {}, what)))), V.el("button", { onclick: () => dialog.close() }, "close"));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
};

V.tell = () => {
  const state = V.state;
  if (!state) return;
  const total = state.sources.reduce((sum, source) => sum + source.episodes, 0);
  document.getElementById("progress")?.replaceChildren(V.shown(state.complete ? `${total.toLocaleString("en")} episodes` : `reading: ${total.toLocaleString("en")} episodes so far`));
  const box = document.getElementById("problems");
  box.replaceChildren();
  if (state.problems.length) box.append(V.el("details", {}, V.el("summary", {}, state.problems.length === 1 ? state.problems[0] : `${state.problems.length} lines could not be read`), state.problems.map((problem) => V.el("div", {}, problem))));
  V.grown?.(total);
  // A view that follows its files is drawn anew once they have changed, unless somebody is typing in it.
  if (V.follow && !drawing && V.drawn !== state.version && !["INPUT", "SELECT"].includes(document.activeElement?.tagName)) V.render();
};

V.look = async () => {
  try {
    V.state = await V.get("state");
    V.canGrade = V.state.regrade;
    V.canFork = V.state.fork;
    V.tell();
  } catch (error) {
    document.getElementById("problems").replaceChildren(V.shown(error.message === "Failed to fetch" ? "the viewer does not answer: was it ended?" : error.message));
  }
};

let turn = 0, shownView = "", drawing = 0;

V.render = async () => {
  const route = V.route(), mine = ++turn;
  if (!(route.view in V.views)) {
    const sources = V.state?.sources || [];
    V.go(sources.some((source) => source.run) ? "runs" : sources.length > 1 ? "evaluations" : "episodes", {}, true);
    return V.render();
  }
  V.keys = {};
  V.grown = null;
  V.follow = false;
  V.bar(route);
  const version = V.state?.version, height = route.view === shownView ? scrollY : 0;
  const main = V.el("main", { id: "main", tabindex: -1 });
  drawing++;
  try {
    await V.views[route.view](main, route);
  } catch (error) {
    main.replaceChildren(V.el("p", { class: "error" }, error.message));
  } finally { drawing--; }
  if (mine !== turn) return;
  document.getElementById("main").replaceWith(main);
  [V.drawn, shownView] = [version, route.view];
  scrollTo(0, height);
  document.title = `${route.view} ${route.rest.join(" ")} · rlvr view`;
  main.dispatchEvent(new Event("shown"));
  main.dataset.ready = "1";
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (event.key === "Escape") { if (typing) event.target.blur(); else V.keys?.u?.(); return; }
  if (typing || (event.key === "Enter" && ["A", "BUTTON", "SUMMARY"].includes(event.target.tagName))) return;
  const common = { "/": () => document.getElementById("search")?.focus(), "?": V.help, 1: () => V.go("runs", {}), 2: () => V.go("evaluations", {}), 3: () => V.go("episodes", {}), 4: () => V.go("signs", {}) };
  const action = V.keys?.[event.key] || common[event.key];
  if (action) { event.preventDefault(); action(); }
});

(async () => {
  try { const theme = localStorage.getItem("theme"); if (theme) document.documentElement.dataset.theme = theme; } catch { /* a file may have no storage */ }
  await V.look();
  addEventListener("hashchange", V.render); // before the first page, which takes a while and may be left before it is shown
  await V.render();
  if (!V.embedded()) setInterval(V.look, 1000);
})();
