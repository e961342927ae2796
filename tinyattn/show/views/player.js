// ---- The player: a trace, step by step

function player(data, root) {
  const { steps, calls, functions, arrays, first } = data;
  const last = first + steps.length - 1;
  const step = (n) => steps[n - first];
  const there = (n) => n !== null && n !== undefined && n >= first && n <= last;
  let now = data.start ?? first, timer = null;
  let chosen = data.start === null ? null : { step: now, i: 0 }, pointed = null;
  let far = false;                                           // whether to mark also the parents of parents, and gradients that would change

  const title = make("h1", { text: data.title });
  const note = make("p", { class: "faint", text: `${data.said}. Arrow keys step, space plays. Point at a number to see what it was made of; choose it to see also where it goes; Escape lets go.` });
  const slider = make("input", { type: "range", min: first, max: last, value: first, "aria-label": "step", on: { input: () => go(Number(slider.value)) } });
  const button = (text, label, action) => make("button", { type: "button", text, "aria-label": label, title: label, on: { click: action } });
  const start = button("|◀", "first step", () => go(first)), back = button("◀", "one step back", () => go(now - 1));
  const play = button("Play", "play", toggle);
  const next = button("▶", "one step on", () => go(now + 1)), end = button("▶|", "last step", () => go(last));
  const where = make("span", { class: "number" });
  const live = make("p", { class: "hidden", "aria-live": "polite" });
  const outline = make("nav", { class: "panel outline", "aria-label": "calls and steps" });
  const source = make("section", { "aria-label": "source" });
  const shown = make("section", { "aria-label": "numbers", on: { pointerleave: () => { pointed = null; tell(); } } });
  const answer = make("div", { class: "panel sum" });
  root.replaceChildren(title, note, make("div", { class: "controls", role: "group", "aria-label": "steps" }, start, back, play, next, end, slider, where), live,
    make("div", { class: "columns" }, outline, source, shown), answer);

  const items = new Map();                                   // step -> its button in the outline
  outline.append(make("h2", { text: "Calls" }), tree(null));
  function tree(parent) {
    const inside = calls.map((call, i) => [call, i]).filter(([call]) => call.parent === parent);
    const own = parent === null ? [] : steps.map((s, i) => [s, first + i]).filter(([s]) => s.call === parent);
    const parts = [...inside.map(([call, i]) => [call.steps[0], branch(call, i)]), ...own.map(([s, n]) => [n, leaf(s, n)])];
    parts.sort((a, b) => a[0] - b[0]);
    return make("ul", {}, ...parts.map(([, node]) => make("li", {}, node)));
  }
  function branch(call, i) {
    if (call.steps[1] < first || call.steps[0] > last) return make("span", { class: "faint", text: call.label });
    return make("details", { open: call.parent === null || calls.length < 12, data: { call: i } }, make("summary", { text: call.label, title: call.title }), tree(i));
  }
  function leaf(s, n) {
    const item = make("button", { type: "button", on: { click: () => go(n) } }, `${n}  ${s.name}`, make("span", { class: "tag" }));
    items.set(n, item);
    return item;
  }

  // One stop for Tab: the current step; arrow keys go up and down from there.
  function stopAt(item) {
    for (const one of outline.querySelectorAll("button, summary")) one.tabIndex = one === item ? 0 : -1;
  }
  outline.addEventListener("keydown", (event) => {
    const all = [...outline.querySelectorAll("button, summary")].filter((one) => one.checkVisibility());
    const to = all[all.indexOf(document.activeElement) + { ArrowDown: 1, ArrowUp: -1 }[event.key]];
    if (!to) return;
    stopAt(to);
    to.focus();
    event.preventDefault();
  });

  function toggle() {
    if (timer === null && now < last) {
      timer = window.setInterval(() => (now < last ? go(now + 1, true) : stop()), 1200);
      play.textContent = "Pause";
      play.setAttribute("aria-label", "pause");
    } else stop();
  }
  function stop() {
    window.clearInterval(timer);
    timer = null;
    play.textContent = "Play";
    play.setAttribute("aria-label", "play");
  }

  function go(n, playing = false) {
    if (!there(n)) return;
    if (!playing) stop();
    now = n;
    pointed = null;
    draw();
  }

  // Every backward step that the gradient at `n` was made from.
  function ancestors(n) {
    const found = new Set(), open = [n];
    while (open.length) {
      const at = open.pop();
      if (!there(at) || at <= data.forward_end || found.has(at)) continue;
      found.add(at);
      for (const read of step(at).reads) open.push(read.step);
    }
    return found;
  }

  function draw() {
    const s = step(now), call = calls[s.call], backward = now > data.forward_end;
    slider.value = now;
    slider.setAttribute("aria-valuetext", `step ${now}, ${s.name}`);
    start.disabled = back.disabled = now === first;
    end.disabled = next.disabled = now === last;
    where.textContent = `${backward ? "backward" : "forward"}, step ${now} of ${last}`;
    live.textContent = `step ${now}, ${backward ? "backward" : "forward"}, ${call.label}, line ${s.line}: ${s.name} ${s.how}`;
    const paths = s.adds.slice(0, 2).map((term) => ancestors(term.step));
    for (const [n, item] of items) {
      if (n === now) item.setAttribute("aria-current", "step"); else item.removeAttribute("aria-current");
      const tag = item.querySelector(".tag"), marks = ["A", "B"].filter((_, i) => paths[i] && paths[i].has(n));
      tag.textContent = marks.join(" ") + influence(n);
      tag.className = `tag ${marks.length === 1 ? `tag-${marks[0].toLowerCase()}` : ""}`;
      if (n === now) {
        stopAt(item);
        for (let box = item.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
        laidOut(outline, () => {
          const top = item.offsetTop - outline.offsetTop;
          if (top < outline.scrollTop || top > outline.scrollTop + outline.clientHeight - 30) outline.scrollTop = top - 60;
        });
      }
    }
    source.replaceChildren(code(call, [[s.line, s.last]], "now", backward ? "The backward line" : "The line"), ...undone(s));
    shown.replaceChildren(...numbers(s));
    tell();
  }

  // Write a line about the number under the pointer, or else the chosen one, at the foot of the screen, and mark its parents.
  function tell() {
    const at = pointed || chosen, from = at && parents(at.step, at.i);
    answer.replaceChildren(...(at ? sentence(at.step, at.i, from) : ["Point at a number to see what it was made of."]).map((part) => make("p", {}, ...[part].flat())));
    const made = pointed && Array.isArray(from) ? from : null;
    for (const { mark, step: n, marked } of arraysShown) mark(made ? (i) => made.some((one) => one.n === n && one.i === i) : (i) => marked.has(i));
  }

  // How many numbers of a step are linked with the chosen one, as text.
  function influence(n) {
    const { size } = n === (chosen || {}).step ? new Map() : links(n);
    return size ? ` ● ${size}` : "";
  }

  // ---- parents and children

  // [step, how many, number, slope, number, slope, ..., step, ...] -> [{ n, i, slope }], or a text: why it is not known.
  function unpacked(flat) {
    if (typeof flat === "string") return flat;
    const all = [];
    for (let at = 0; at < flat.length; at += 2 + 2 * flat[at + 1]) {
      for (let k = 0; k < flat[at + 1]; k++) all.push({ n: flat[at], i: flat[at + 2 + 2 * k], slope: Number(flat[at + 3 + 2 * k]) });
    }
    return all;
  }
  const parents = (n, i) => unpacked(typeof data.parents[n] === "string" ? data.parents[n] : (data.parents[n] || [])[i] || []);

  let everyChild = null;                                     // step -> number -> [{ n, i, slope }]
  function children(n, i) {
    if (!everyChild) {
      everyChild = new Map();
      steps.forEach((s, k) => arrays[s.array].values.forEach((_, j) => {
        const made = parents(first + k, j);
        if (typeof made === "string") return;
        for (const from of made) {
          if (!everyChild.has(from.n)) everyChild.set(from.n, new Map());
          const of = everyChild.get(from.n);
          if (!of.has(from.i)) of.set(from.i, []);
          of.get(from.i).push({ n: first + k, i: j, slope: from.slope });
        }
      }));
    }
    return (everyChild.get(n) || new Map()).get(i) || [];
  }

  // Slopes multiplied along all paths from a number, by `next` (children or parents) -> Map: step -> Map: number -> slope.
  function reached(n, i, next) {
    const all = new Map([[n, new Map([[i, 1]])]]), open = [n], later = next === children;
    while (open.length) {
      const at = open.splice(open.indexOf(later ? Math.min(...open) : Math.max(...open)), 1)[0];
      for (const [j, slope] of all.get(at)) {
        const on = there(at) ? next(at, j) : [];
        for (const to of typeof on === "string" ? [] : on) {
          if (!all.has(to.n)) { all.set(to.n, new Map()); open.push(to.n); }
          all.get(to.n).set(to.i, (all.get(to.n).get(to.i) || 0) + slope * to.slope);
        }
      }
    }
    return all;
  }

  const moves = (slope) => (Number.isNaN(slope) ? "moves by an unknown amount" : `moves by ${said(slope)}`);
  let marks = new Map(), marksOf = "";                       // step -> number -> a text about it
  function links(n) {
    const key = chosen ? `${chosen.step} ${chosen.i} ${far}` : "";
    if (key === marksOf) return marks.get(n) || new Map();
    marksOf = key;
    marks = new Map();
    if (!chosen) return new Map();
    const { step: at, i } = chosen, name = named(at, i);
    const mark = (m, j, text) => { if (!marks.has(m)) marks.set(m, new Map()); marks.get(m).set(j, text); };
    const shows = (m) => far || (m > data.forward_end) === (at > data.forward_end);
    for (const [m, of] of reached(at, i, children)) for (const [j, slope] of of) if (shows(m) && slope !== 0) mark(m, j, `${moves(slope)} for 1 of ${name}`);
    if (far) for (const [m, of] of reached(at, i, parents)) for (const [j, slope] of of) if (slope !== 0) mark(m, j, `for 1 of it ${name} ${moves(slope)}`);
    marks.delete(at);
    const from = parents(at, i);
    if (typeof from !== "string") for (const { n: m, i: j, slope } of from) mark(m, j, `is a parent of ${name}, which ${moves(slope)} for 1 of it`);
    if (at <= data.forward_end) steps.forEach((s, k) => { if (s.gradient && s.gradient.of === at) mark(first + k, i, `is the gradient of ${name}`); });
    return marks.get(n) || new Map();
  }

  function named(n, i) {
    const { shape } = arrays[step(n).array];
    return `${step(n).name}${shape.length ? `[${place(i, shape).join(", ")}]` : ""}`;
  }

  function code(call, ranges, kind, heading) {
    const of = functions[call.function];
    const lines = of.lines.map(([n, text]) => {
      const marked = ranges.some(([a, b]) => a <= n && n <= b);
      return make("span", { class: marked ? kind : null, "aria-current": marked && kind === "now" ? "true" : null }, make("span", { class: "n", text: n }), text || " ");
    });
    const pre = make("pre", { class: "code", tabindex: 0, "aria-label": `source of ${of.name}` }, ...lines);
    const line = pre.querySelector(`.${kind}`);
    if (line) laidOut(pre, () => { pre.scrollTop = line.offsetTop - pre.offsetTop - 0.4 * pre.clientHeight; });
    const whole = of.lines.filter(([n]) => ranges.some(([a, b]) => a <= n && n <= b)).map(([, text]) => text.trim()).join("\n");    // a long line's end may be off the screen
    return make("div", { class: "panel" }, make("h2", { text: heading }), make("p", { class: "faint" }, make("code", { text: call.label }), `  ${of.file}`), pre, make("pre", { class: "whole", text: whole }));
  }

  function undone(s) {
    if (!s.gradient || !s.gradient.lines.length) return [];
    const call = calls[s.gradient.call];
    return [code(call, s.gradient.lines, "undone", `It undoes the forward lines that read ${s.gradient.name}`)];
  }

  function link(n) {
    return there(n) ? make("button", { type: "button", class: "link", text: `step ${n}`, on: { click: () => go(n) } }) : null;
  }

  let arraysShown = [];
  function map(array, name, n, how = {}) {
    const follows = there(n) && arrays[step(n).array] === arrays[array];
    const mine = chosen && follows && chosen.step === n ? chosen.i : null, marked = follows ? links(n) : new Map();
    const node = heatMap(arrays[array], { name, chosen: mine, linked: marked, onPoint: follows ? (i) => { pointed = { step: n, i }; tell(); } : null,
      onChoose: follows ? (i) => { chosen = chosen && chosen.step === n && chosen.i === i ? null : { step: n, i }; draw(); refocus(); } : null, ...how });
    arraysShown.push({ mark: (has) => node.mark(has), step: follows ? n : null, marked });
    return node;
  }

  // A redrawn grid has lost the focus: give it back to the chosen cell.
  function refocus() {
    const cell = root.querySelector("td.chosen");
    if (cell) cell.focus({ preventScroll: true });
  }

  function numbers(s) {
    const found = [];
    arraysShown = [];
    const result = make("div", { class: "panel" }, make("h2", { text: s.how === "comes in" ? "It comes in" : "It makes" }));
    result.append(s.unfilled ? make("p", { class: "faint", text: `${s.name}: memory that is not yet filled` })
      : map(s.array, s.name, now, { note: s.how && s.how !== "comes in" ? make("span", { class: "faint", text: s.how }) : null }));
    if (s.reads.length) {
      const reads = make("div", { class: "arrays" }, ...s.reads.map((r) => map(r.array, r.name, r.step, { note: link(r.step) })));
      found.push(make("div", { class: "panel" }, make("h2", { text: "It reads" }), reads));
    }
    found.push(result);
    if (s.adds.length) {
      const terms = s.adds.map((term, i) => make("div", { class: `tag-${"ab"[i] || "a"}` }, "ABCDEF"[i], map(term.array, term.name, term.step, { note: link(term.step) })));
      found.push(make("div", { class: "panel" }, make("h2", { text: "Gradients meet here and are added" }),
        make("p", { text: "A value that was read in several places receives a gradient from each of them; the outline marks the paths of these gradients." }), make("div", { class: "arrays" }, ...terms)));
    }
    if (s.gradient && there(s.gradient.of)) {
      found.push(make("div", { class: "panel" }, make("h2", {}, `${s.name} is the gradient of `, make("code", { text: s.gradient.name })),
        map(step(s.gradient.of).array, s.gradient.name, s.gradient.of, { note: link(s.gradient.of) })));
    }
    found.push(following());
    return found;
  }

  function following() {
    const box = make("div", { class: "panel", "aria-live": "polite" }, make("h2", { text: "One number" }));
    if (!chosen) {
      box.append(make("p", { class: "faint", text: "Choose a number, by a click or by Enter, to see its slopes and where it goes." }));
      return box;
    }
    const { step: n, i } = chosen, from = parents(n, i), to = new Map();
    box.append(make("p", {}, make("code", { text: `${named(n, i)} = ${said(valueOf(n, i), 6)}` }), " of ", link(n)));
    if (typeof from === "string" || !from.length) box.append(make("p", { text: unmade(n, from) }));
    else box.append(...madeOf(from));
    if (n <= data.forward_end) box.append(verdict(n, i));
    for (const child of children(n, i)) to.set(child.n, (to.get(child.n) || 0) + 1);
    if (to.size) box.append(make("p", {}, "It goes into ", ...[...to].flatMap(([m, count], k) => [k ? "; " : "", `${count} of `, make("code", { text: step(m).name }), " ", link(m)])));
    box.append(make("p", {}, make("label", {}, make("input", { type: "checkbox", checked: far, on: { change: (event) => { far = event.target.checked; draw(); } } }), " mark all that it depends on, and the gradients that would change with it, too")));
    box.append(make("button", { type: "button", text: "Let go", on: { click: release } }));
    return box;
  }

  const valueOf = (n, i) => (there(n) ? arrays[step(n).array].values[i] : null);

  function unmade(n, from) {
    if (typeof from === "string") return `Its parents are not known here: ${from}.`;
    return step(n).how === "comes in" && calls[step(n).call].parent === null ? "It comes in from outside." : "Its line reads no number of the trace to make it.";
  }

  // All parents.
  function madeOf(from) {
    const row = ({ n: m, i: j, slope }) => make("tr", {}, make("td", {}, make("code", { text: there(m) ? named(m, j) : `number ${j}` })), make("td", { text: there(m) ? said(valueOf(m, j), 4) : "" }),
      make("td", { text: Number.isNaN(slope) ? "not known" : said(slope, 4) }), make("td", {}, link(m) || `step ${m}, not on this page`));
    return [make("p", { text: `${from.length === 1 ? "Its only parent" : `All its ${from.length} parents`}: what the line reads to make it. The slope: how fast it changes with the parent.` }),
      make("div", { class: "moves" }, make("table", {}, make("tr", {}, ...["number", "value", "slope", "step"].map((text) => make("th", { scope: "col", text }))), ...from.map(row)))];
  }

  // The line about a number: the sum that gives it, if there is one, and its parents.
  function sentence(n, i, from) {
    const x = said(valueOf(n, i), 4), code = (text) => make("code", { class: "written", text });
    if (typeof from === "string" || !from.length) return [code(`${named(n, i)} = ${x}`), unmade(n, from)];
    const of = new Map(), { sum, note } = written(n, i, from);
    for (const one of from) of.set(one.n, [...(of.get(one.n) || []), one.i]);
    const parents = [...of].map(([m, all]) => (!there(m) ? `${all.length} of step ${m}, not on this page` : all.length > 4 ? `${all.length} of ${step(m).name}` : all.map((j) => `${named(m, j)} = ${said(valueOf(m, j))}`).join(", "))).join("; ");
    if (sum) return [code(`${named(n, i)} = ${sum}${sum === x ? "" : ` = ${x}`}`), of.size > 1 ? `${note}. Its parents: ${parents}` : note];
    return [code(`${named(n, i)} = ${x}`), `made of ${parents}`];
  }

  // The sum of value times slope over the parents in one array, or in all, if it gives the number. At most twelve terms.
  function written(n, i, from) {
    const x = valueOf(n, i), term = (y) => (y < 0 ? `(${said(y)})` : said(y));
    for (const m of [...new Set(from.map((one) => one.n)), null]) {
      const terms = from.filter((one) => m === null || one.n === m).map((one) => [valueOf(one.n, one.i), one.slope]);
      const products = terms.map(([value, slope]) => value * slope), total = products.reduce((a, b) => a + b, 0);
      if (!finite(x) || terms.length > 12 || !products.every(finite) || !terms.some(([, slope]) => slope !== 0)) continue;
      if (Math.abs(total - x) > 1e-4 * products.reduce((a, b) => a + Math.abs(b), 1e-9)) continue;
      if (terms.every(([, slope]) => slope === 1)) return { sum: terms.map(([value]) => term(value)).join(" + "), note: from.length > 1 ? `the numbers of ${m === null ? "all" : step(m).name}` : `the number of step ${from[0].n}` };
      return { sum: terms.map(([value, slope]) => `${term(value)} · ${term(slope)}`).join(" + "), note: `the numbers of ${m === null ? "all" : step(m).name} times their slopes` };
    }
    return {};
  }

  // The gradient by the backward beside the slopes of the forward's lines, multiplied along all paths to the loss.
  function verdict(n, i) {
    const loss = unpacked(data.loss), partial = first > n || last < data.forward_end || typeof loss === "string";
    if (!loss.length || last <= data.forward_end) return "";
    const changes = reached(n, i, children);
    const holes = partial || steps.some((s, k) => first + k > n && first + k <= data.forward_end && arrays[s.array].values.some((_, j) => typeof parents(first + k, j) === "string"));
    const measured = holes ? NaN : loss.reduce((sum, one) => sum + one.slope * ((changes.get(one.n) || new Map()).get(one.i) || 0), 0);
    const name = `∂L/∂${named(n, i)}`, at = steps.findIndex((s) => s.gradient && s.gradient.of === n);
    if (Number.isNaN(measured)) return make("p", { text: `${name} by nudging is not known here.` });
    if (at < 0 || data.shared.includes(n)) return make("p", { text: `${name} = ${said(measured, 4)} by nudging; no step of the backward is its gradient alone.` });
    const gradient = arrays[steps[at].array], traced = gradient.values[i];
    const slack = (gradient.dtype === "float32" ? 1e-3 : 1e-5) * Math.max(1, ...gradient.values.filter(finite).map(Math.abs));
    const agree = Math.abs(traced - measured) <= slack;
    return make("p", { title: "by nudging: the slopes of the forward's operations, multiplied along all paths to the loss; the backward has no part in it" }, `${name}: ${said(traced, 5)} by the backward, `, link(first + at), `; ${said(measured, 5)} by nudging: `,
      make("span", { class: agree ? "agree" : "differ", text: agree ? "they agree" : "they differ" }));
  }

  function release() { chosen = null; draw(); }

  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const where = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: first, End: last }[event.key];
    if (where !== undefined) go(where);
    else if (event.key === "Escape" && chosen) release();
    else if (event.key === " " && !event.target.closest("button, summary, td, canvas")) toggle();
    else return;
    event.preventDefault();
  });
  onTheme(draw);
  draw();
}

open(player);
