"use strict";
// Everything that a record holds goes through `V.shown`, which makes text nodes and nothing else.
const V = {};

V.el = (tag, options, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options || {})) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, String(value));
  }
  V.put(made, ...children);
  return made;
};

V.put = (parent, ...children) => {
  for (const child of children.flat(4)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : V.shown(String(child)));
  }
  return parent;
};

// What steers a terminal, turns the direction of a text or is not seen at all is shown by its number.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|\udb40[\udc00-\uddff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

V.shown = (text) => {
  const fragment = document.createDocumentFragment();
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found[0] === "\r" && text[found.index + 1] === "\n") {
      fragment.append(text.slice(from, found.index));
      from = found.index + 1;
      continue;
    }
    fragment.append(text.slice(from, found.index));
    const mark = document.createElement("span");
    mark.className = "ctl";
    mark.textContent = "U+" + found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    fragment.append(mark);
    from = found.index + found[0].length;
  }
  fragment.append(text.slice(from));
  return fragment;
};

// The text of an element that is filled again and again; like `V.put`, with less work where nothing is hidden.
V.say = (element, text) => {
  if (text.search(HIDDEN) >= 0) element.replaceChildren(V.shown(text));
  else if (element.childNodes.length === 1 && element.firstChild.nodeType === Node.TEXT_NODE) element.firstChild.data = text;
  else element.textContent = text;
};

const LONG = 60000;

// A long text is shown in parts: a page of many megabytes would stand still.
V.text = (text, tag = "pre", kind = "text") => {
  const made = V.el(tag, { class: kind });
  const add = (from) => {
    V.put(made, text.slice(from, from + LONG));
    if (text.length > from + LONG) {
      const more = V.el("button", { onclick: () => { more.remove(); add(from + LONG); } },
        `show ${Math.min(LONG, text.length - from - LONG).toLocaleString("en")} of ${(text.length - from - LONG).toLocaleString("en")} more characters`);
      made.append(more);
    }
  };
  add(0);
  return made;
};

const WHOLE = new Intl.NumberFormat("en");
V.whole = (value) => WHOLE.format(value);

// What `rlvr eval` says of cut and flawed replies; "" where there was none.
V.flawed = ({ replies, cut, unread, flaws }) => {
  const listed = Object.entries({ cut, ...flaws }).filter(([, count]) => count).map(([name, count]) => `${name.replaceAll("_", " ")} ${V.whole(count)}`);
  const parts = [listed.length ? `of ${V.whole(replies)} replies: ${listed.join(", ")}` : "", unread ? `actions not understood: ${V.whole(unread)}` : ""];
  return parts.filter(Boolean).join("; ");
};

V.figure = (value, digits = 4) => {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value)) return String(value);
  return Number.isInteger(value) ? V.whole(value) : String(Number(value.toPrecision(digits)));
};

// --- addresses: everything that is seen can be linked to ---

V.route = () => {
  const [path, query] = location.hash.replace(/^#/, "").split(/\?(.*)/s);
  const [view, ...rest] = path.split("/").filter(Boolean);
  return { view: view || "", rest, params: Object.fromEntries(new URLSearchParams(query || "")) };
};

V.href = (path, params = {}) => {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value !== "" && value !== null && value !== undefined) query.set(name, value);
  const key = V.route().params.key;
  if (key) query.set("key", key);
  const text = query.toString();
  return `#/${path}${text ? "?" + text : ""}`;
};

V.go = (path, params, instead = false) => {
  const href = V.href(path, params);
  if (instead) { history.replaceState(null, "", href); } else location.hash = href;
};

// --- where the content comes from: the server, or the data in an exported file ---

V.embedded = () => {
  if (V.data === undefined) {
    const held = document.getElementById("data");
    V.data = held ? JSON.parse(held.textContent) : null;
  }
  return V.data;
};

V.get = async (path, params = {}, method = "GET", sent = null) => {
  const data = V.embedded();
  if (data) return V.fromFile(data, path, params);
  const query = new URLSearchParams(params).toString();
  const key = V.route().params.key || "";
  const response = await fetch(`/api/${path}${query ? "?" + query : ""}`, { method, headers: { ...(key ? { Authorization: `Bearer ${key}` } : {}), ...(sent ? { "Content-Type": "application/json" } : {}) }, body: sent ? JSON.stringify(sent) : undefined });
  let body;
  try { body = await response.json(); } catch { throw new Error(`the viewer's answer (${response.status}) cannot be read`); }
  if (!response.ok) throw new Error(body.error || `the viewer answered ${response.status}`);
  return body;
};

V.fromFile = (data, path, params) => {
  const [kind, number] = path.split("/");
  if (kind === "episodes") return V.filtered(data, params);
  if (kind === "evaluation" && Object.hasOwn(data.evaluation, params.source)) return data.evaluation[params.source];
  if (["episode", "tokens", "group"].includes(kind)) {
    const found = data[kind][data.rows.find((row) => String(row.id) === number)?.uid ?? number];
    if (!found) throw new Error(`this file does not hold ${kind} ${number}`);
    return found;
  }
  if (!(kind in data)) throw new Error("an exported file cannot do this");
  return data[kind];
};

V.RANGES = ["reward", "step", "characters", "tokens", "turns", "seconds", "cost", "cut", "unread"];

const words = (text) => [...text.matchAll(/"([^"]*)"|(\S+)/g)].map((m) => (m[1] ?? m[2]).replace(/\*$/, "").toLowerCase());

V.filtered = (data, asked) => {
  const wanted = words(asked.q || "");
  const among = (value, text) => !text || text.split(",").includes(String(value));
  const inside = (value, name) =>
    (!asked[`min_${name}`] || (value !== null && value >= Number(asked[`min_${name}`]))) &&
    (!asked[`max_${name}`] || (value !== null && value <= Number(asked[`max_${name}`])));
  let rows = data.rows.filter((row) =>
    ["source", "phase", "env", "split", "level", "status", "stop", "model", "task", "grp"].every((name) => among(row[name], asked[name])) &&
    V.RANGES.every((name) => inside(row[name], name)) &&
    (!asked.flaw || row.flaws.split(" ").includes(asked.flaw)) &&
    (!asked.tool || row.tools.split(" ").includes(asked.tool)) &&
    (!asked.error || row.error.toLowerCase().includes(asked.error.toLowerCase())) &&
    wanted.every((word) => data.words[row.id].includes(word)));
  const order = (asked.sort || "id").replace(/^-/, "");
  const sign = (asked.sort || "").startsWith("-") ? -1 : 1;
  rows = [...rows].sort((a, b) => sign * (a[order] > b[order] ? 1 : a[order] < b[order] ? -1 : 0) || a.id - b.id);
  const offset = Number(asked.offset || 0);
  const sum = (name) => rows.reduce((total, row) => total + row[name], 0);
  const flaws = {};
  for (const row of rows) for (const name of row.flaws.split(" ").filter(Boolean)) flaws[name] = (flaws[name] || 0) + 1;
  const replies = { replies: sum("replies"), cut: sum("cut"), unread: sum("unread"), flaws };
  return { replies, rows: rows.slice(offset, offset + Number(asked.limit || 100)), total: rows.length, offset };
};
