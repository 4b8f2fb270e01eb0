"use strict";
// Markdown and mathematics, drawn with elements that are made one by one: no text becomes markup, no link leads anywhere,
// nothing is loaded. What is not understood stands as it was written.

const MATH = "http://www.w3.org/1998/Math/MathML";
const MAX_DEPTH = 20, MAX_DRAWN = 100000; // characters, beyond which a text is shown as it is

const mml = (tag, ...children) => {
  const made = document.createElementNS(MATH, tag);
  for (const child of children.flat()) made.append(child instanceof Node ? child : V.shown(String(child)));
  return made;
};

const SYMBOLS = { ",": "\u2009", ";": "\u2009", ":": "\u2009", " ": "\u2009", "!": "", quad: "\u2003", qquad: "\u2003\u2003" };
const LISTED_SYMBOLS = (
  "alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ iota ι kappa κ lambda λ mu μ nu ν " +
  "xi ξ pi π rho ρ sigma σ tau τ upsilon υ phi φ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ " +
  "Xi Ξ Pi Π Sigma Σ Phi Φ Psi Ψ Omega Ω cdot · times × div ÷ pm ± mp ∓ le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ " +
  "approx ≈ equiv ≡ sim ∼ to → rightarrow → Rightarrow ⇒ implies ⟹ iff ⟺ leftarrow ← infty ∞ sum ∑ prod ∏ int ∫ " +
  "partial ∂ nabla ∇ in ∈ notin ∉ subset ⊂ subseteq ⊆ cup ∪ cap ∩ emptyset ∅ forall ∀ exists ∃ neg ¬ land ∧ " +
  "lor ∨ wedge ∧ vee ∨ mid ∣ ldots … dots … cdots ⋯ circ ∘ angle ∠ perp ⊥ parallel ∥ lfloor ⌊ rfloor ⌋ lceil ⌈ " +
  "rceil ⌉ langle ⟨ rangle ⟩ prime ′ ast ∗ oplus ⊕ otimes ⊗ setminus ∖ hbar ℏ ell ℓ therefore ∴"
).split(" ");
for (let i = 0; i < LISTED_SYMBOLS.length; i += 2) SYMBOLS[LISTED_SYMBOLS[i]] = LISTED_SYMBOLS[i + 1];
const NAMED = ["sin", "cos", "tan", "log", "ln", "exp", "min", "max", "lim", "gcd", "lcm", "det", "mod", "arg", "sup", "inf", "Pr", "dim", "ker"];
const TEXTS = ["text", "mathrm", "operatorname", "textbf", "mathbf", "mathit", "textit", "mbox", "mathbb", "mathcal", "mathsf"];

// The pieces of a formula: commands, numbers, and single characters.
const pieces = (tex) => tex.match(/\\[a-zA-Z]+\*?|\\[^]|\d+(?:\.\d+)?|\s+|[^]/gu) || [];

V.formula = (tex) => {
  const all = pieces(tex);
  let at = 0;
  const blank = () => { while (at < all.length && /^\s/.test(all[at])) at++; };
  const argument = (depth) => { blank(); if (all[at] === "{") { at++; return row(depth + 1, "}"); } return mml("mrow", atom(depth + 1) || mml("mtext", "")); };
  const raw = () => {
    blank();
    if (all[at] !== "{") return all[at++] ?? "";
    let text = "", open = 1;
    for (at++; at < all.length; at++) {
      open += all[at] === "{" ? 1 : all[at] === "}" ? -1 : 0;
      if (!open) { at++; break; }
      text += all[at];
    }
    return text;
  };
  const table = (depth, name) => {
    const cells = [[[]]];
    while (at < all.length && all[at] !== "\\end") {
      if (all[at] === "&") { cells.at(-1).push([]); at++; }
      else if (all[at] === "\\\\") { cells.push([[]]); at++; }
      else { const made = scripts(depth + 1); if (made) cells.at(-1).at(-1).push(made); }
    }
    if (at < all.length) { at++; raw(); }
    const [open, close] = { pmatrix: "()", bmatrix: "[]", vmatrix: "||", cases: ["{", ""] }[name] || ["", ""];
    return mml("mrow", mml("mo", open), mml("mtable", cells.map((line) => mml("mtr", line.map((cell) => mml("mtd", cell))))), mml("mo", close));
  };
  const atom = (depth) => {
    blank();
    const piece = all[at++];
    if (piece === undefined || depth > MAX_DEPTH) return piece === undefined ? null : mml("mtext", piece);
    if (piece === "{") return row(depth + 1, "}");
    if (/^\d/.test(piece)) return mml("mn", piece);
    if (/^\p{L}$/u.test(piece)) return mml("mi", piece);
    if (!piece.startsWith("\\")) return mml("mo", piece === "-" ? "−" : piece);
    const name = piece.slice(1);
    if (["frac", "dfrac", "tfrac", "binom"].includes(name)) {
      const made = mml("mfrac", argument(depth), argument(depth));
      if (name === "binom") { made.setAttribute("linethickness", "0"); return mml("mrow", mml("mo", "("), made, mml("mo", ")")); }
      return made;
    }
    if (name === "sqrt") {
      blank();
      if (all[at] !== "[") return mml("msqrt", argument(depth));
      at++;
      const degree = row(depth + 1, "]");
      return mml("mroot", argument(depth), degree);
    }
    if (name === "boxed" || name === "fbox") { const made = argument(depth); made.classList.add("boxed"); return made; }
    if (TEXTS.includes(name)) return mml("mtext", raw());
    if (["overline", "bar", "hat", "vec", "tilde", "dot"].includes(name)) return mml("mover", argument(depth), mml("mo", { hat: "^", vec: "→", tilde: "~", dot: "˙" }[name] || "¯"));
    if (name === "left" || name === "right" || /^[bB]ig+[lr]?$/.test(name)) { blank(); const fence = all[at++] ?? ""; return mml("mo", fence === "." ? "" : SYMBOLS[fence.slice(1)] || fence.replace("\\", "")); }
    if (name === "begin") return table(depth, raw().replace("*", ""));
    if (NAMED.includes(name)) return mml("mi", name);
    if (["displaystyle", "textstyle", "limits", "nolimits"].includes(name)) return mml("mrow");
    if (Object.hasOwn(SYMBOLS, name)) return mml(/^[α-ωΑ-Ω∞ℏℓ]$/u.test(SYMBOLS[name]) ? "mi" : "mo", SYMBOLS[name]);
    return mml("mtext", /^[{}$%&#_]$/.test(name) ? name : piece);
  };
  const scripts = (depth) => {
    const base = atom(depth);
    if (!base) return null;
    let low = null, high = null;
    for (;;) {
      blank();
      if (all[at] === "_" && !low) { at++; low = argument(depth); }
      else if (all[at] === "^" && !high) { at++; high = argument(depth); }
      else if (all[at] === "'" && !high) { at++; high = mml("mo", "′"); }
      else break;
    }
    if (low && high) return mml("msubsup", base, low, high);
    return low ? mml("msub", base, low) : high ? mml("msup", base, high) : base;
  };
  const row = (depth, end = null) => {
    const made = mml("mrow");
    while (at < all.length) {
      blank();
      if (end !== null && all[at] === end) { at++; break; }
      const next = scripts(depth);
      if (!next) break;
      made.append(next);
    }
    return made;
  };
  return mml("math", row(0));
};

const SPAN = 4000, FENCED = 2000; // characters and lines that a mark may reach: no text takes long to look through

// What a mark at a position opens: what stands in it, where it ends, and what is made of it; null where it opens nothing.
const marked = (text, at, depth) => {
  const until = (end, from) => { const found = text.slice(from, from + SPAN).indexOf(end); return found < 0 ? -1 : from + found; };
  const formula = (from, end, block, tex = text.slice(from, end)) => {
    if (end <= from || !tex.trim()) return null;
    const math = V.formula(tex);
    math.setAttribute("title", tex);
    if (block) math.setAttribute("display", "block");
    return math;
  };
  const made = (node, end) => (node ? { node, end } : null);
  const letter = text[at], next = text[at + 1] ?? "";
  if (letter === "`") {
    let run = 1;
    while (text[at + run] === "`") run++;
    const end = run > 3 ? -1 : until("`".repeat(run), at + run);
    return end < 0 ? { node: text.slice(at, at + run), end: at + run } : made(V.el("code", {}, text.slice(at + run, end)), end + run);
  }
  if (letter === "\\") {
    if (next === "(" || next === "[") { const end = until(next === "(" ? "\\)" : "\\]", at + 2); return made(formula(at + 2, end, next === "["), end + 2); }
    if (!text.startsWith("\\boxed{", at)) return null;
    for (let end = at + 7, open = 1; end < Math.min(text.length, at + SPAN); end++) {
      open += text[end] === "{" ? 1 : text[end] === "}" ? -1 : 0;
      if (!open) return made(formula(at, end + 1, false), end + 1);
    }
    return null;
  }
  if (letter === "$") {
    if (next === "$") { const end = until("$$", at + 2); return made(formula(at + 2, end, true), end + 2); }
    const end = until("$", at + 1), inside = end < 0 ? "" : text.slice(at + 1, end);
    // Sums of money are none: a formula touches both of its marks, and no word follows it.
    if (!inside || inside.includes("\n") || /\s/.test(inside[0]) || /[\s\\]/.test(inside.at(-1)) || /[\d\p{L}]/u.test(text[end + 1] ?? "")) return null;
    return made(formula(at + 1, end, false), end + 1);
  }
  const mark = next === letter ? letter + letter : letter;
  if (mark === "~" || (mark === "*" && /[\p{L}\d]/u.test(text[at - 1] ?? ""))) return null;
  const from = at + mark.length, end = until(mark, from), inside = end < 0 ? "" : text.slice(from, end);
  if (!inside || /\s/.test(inside[0]) || /\s/.test(inside.at(-1)) || (mark === "*" && (inside.includes("\n") || text[end + 1] === "*"))) return null;
  return made(V.el({ "**": "strong", "*": "em", "~~": "s" }[mark], {}, inline(inside, depth + 1)), end + mark.length);
};

const inline = (text, depth = 0) => {
  const made = [], marks = /[`\\$*~]/g;
  let from = 0;
  for (let found; depth < MAX_DEPTH && (found = marks.exec(text));) {
    const opened = marked(text, found.index, depth);
    if (!opened) continue;
    made.push(text.slice(from, found.index), opened.node);
    from = marks.lastIndex = opened.end;
  }
  made.push(text.slice(from));
  return made.filter((piece) => piece !== "");
};

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

V.markdown = (text) => {
  if (text.length > MAX_DRAWN) return V.text(text);
  const made = V.el("div", { class: "markdown" }), lines = text.split("\n");
  let paragraph = [];
  const flush = () => { if (paragraph.length) made.append(V.el("p", {}, inline(paragraph.join("\n")))); paragraph = []; };
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at], fence = /^\s*(```+|~~~+)/.exec(line), opens = /^\s*(\\\[|\$\$)\s*$/.exec(line);
    if (fence || opens) {
      const close = fence ? fence[1] : { "\\[": "\\]", $$: "$$" }[opens[1]];
      const end = at + 1 + lines.slice(at + 1, at + FENCED).findIndex((each) => each.trim().startsWith(close));
      if (end > at) {
        flush();
        const body = lines.slice(at + 1, end).join("\n");
        if (fence) made.append(V.text(body, "pre", "text code"));
        else { const math = V.formula(body); math.setAttribute("display", "block"); made.append(math); }
        at = end;
        continue;
      }
    }
    const head = /^(#{1,6})\s+(.*)$/.exec(line), item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/.exec(line);
    if (!line.trim()) flush();
    else if (head) { flush(); made.append(V.el("p", { class: "heading" }, V.el("strong", {}, inline(head[2])))); }
    else if (line.length < 100 && /^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) { flush(); made.append(V.el("hr")); }
    else if (line.includes("|") && /^[\s|:-]+$/.test(lines[at + 1] || "") && lines[at + 1].includes("|") && lines[at + 1].includes("-")) {
      flush();
      const rows = [cells(line)];
      for (at += 2; at < lines.length && lines[at].includes("|"); at++) rows.push(cells(lines[at]));
      at--;
      made.append(V.el("div", { class: "scroll" }, V.el("table", {}, rows.map((row, i) => V.el("tr", {}, row.map((cell) => V.el(i ? "td" : "th", {}, inline(cell))))))));
    }
    else if (item) { flush(); const entry = V.el("p", { class: "item" }, `${/\d/.test(item[2]) ? item[2] : "•"} `, inline(item[3])); entry.style.marginLeft = `${Math.min(12, item[1].length) / 2 + 1}rem`; made.append(entry); }
    else if (/^\s*>/.test(line)) { flush(); made.append(V.el("blockquote", {}, inline(line.replace(/^\s*>\s?/, "")))); }
    else paragraph.push(line);
  }
  flush();
  return made;
};
