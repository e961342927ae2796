// ---- The player: a trace, step by step

function player(data, root) {
  const { steps, calls, functions, arrays, reach, first } = data;
  const last = first + steps.length - 1;
  const step = (n) => steps[n - first];
  const there = (n) => n !== null && n !== undefined && n >= first && n <= last;
  let now = first, chosen = null, timer = null;              // chosen: { step, i }
  let second = false;                                        // mark gradients that would change with a chosen number of the forward?

  const title = make("h1", { text: data.title });
  const note = make("p", { class: "faint", text: `${data.said}. Arrow keys step, space plays, Escape lets go of a number.` });
  const slider = make("input", { type: "range", min: first, max: last, value: first, "aria-label": "step", on: { input: () => go(Number(slider.value)) } });
  const button = (text, label, action) => make("button", { type: "button", text, "aria-label": label, title: label, on: { click: action } });
  const start = button("|◀", "first step", () => go(first)), back = button("◀", "one step back", () => go(now - 1));
  const play = button("Play", "play", toggle);
  const next = button("▶", "one step on", () => go(now + 1)), end = button("▶|", "last step", () => go(last));
  const where = make("span", { class: "number" });
  const live = make("p", { class: "hidden", "aria-live": "polite" });
  const outline = make("nav", { class: "panel outline", "aria-label": "calls and steps" });
  const source = make("section", { "aria-label": "source" });
  const shown = make("section", { "aria-label": "numbers" });
  root.replaceChildren(title, note, make("div", { class: "controls", role: "group", "aria-label": "steps" }, start, back, play, next, end, slider, where), live,
    make("div", { class: "columns" }, outline, source, shown));

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
        for (let box = item.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
        laidOut(outline, () => {
          const top = item.offsetTop - outline.offsetTop;
          if (top < outline.scrollTop || top > outline.scrollTop + outline.clientHeight - 30) outline.scrollTop = top - 60;
        });
      }
    }
    source.replaceChildren(code(call, [[s.line, s.last]], "now", backward ? "The backward line" : "The line"), ...undone(s));
    shown.replaceChildren(...numbers(s));
  }

  // What the chosen number has to do with a step: how many of its numbers move with it, or move it.
  function influence(n) {
    if (!chosen || n === chosen.step) return "";
    const found = links(n);
    return found.size ? ` ● ${found.size}` : "";
  }

  // Of a step, the numbers that depend on the chosen one, or that it depends on, and what is said of each.
  function links(n) {
    const found = new Map();
    if (!chosen) return found;
    const name = named(chosen.step, chosen.i), later = n > data.forward_end && chosen.step <= data.forward_end;
    if (later && step(n).gradient && step(n).gradient.of === chosen.step) found.set(chosen.i, `is the gradient of ${name}`);
    if (later && !second) return found;
    if (n > chosen.step) {
      const flat = ((reach[chosen.step] || [])[chosen.i] || { moves: {} }).moves[n] || [];
      for (let j = 0; j < flat.length; j += 2) found.set(flat[j], `moves by ${said(flat[j + 1])} for 1 of ${name}`);
    } else if (n < chosen.step) {
      (reach[n] || []).forEach((one, i) => {
        const flat = one.moves[chosen.step] || [];
        for (let j = 0; j < flat.length; j += 2) if (flat[j] === chosen.i) found.set(i, `for 1 of it ${name} moves by ${said(flat[j + 1])}`);
      });
    }
    return found;
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
    const whole = of.lines.filter(([n]) => ranges.some(([a, b]) => a <= n && n <= b)).map(([, text]) => text.trim()).join("\n");    // its end may be off the screen
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

  function map(array, name, n, how = {}) {
    const follows = there(n) && arrays[step(n).array] === arrays[array];
    const mine = chosen && follows && chosen.step === n ? chosen.i : null;
    return heatMap(arrays[array], { name, chosen: mine, linked: follows ? links(n) : new Map(),
      onChoose: follows ? (i) => { chosen = chosen && chosen.step === n && chosen.i === i ? null : { step: n, i }; draw(); refocus(); } : null, ...how });
  }

  // A redrawn grid has lost the focus; the chosen cell has it again.
  function refocus() {
    const cell = root.querySelector("td.chosen");
    if (cell) cell.focus({ preventScroll: true });
  }

  function numbers(s) {
    const found = [];
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
        make("p", { text: "What was read in several places receives a gradient from each; the outline marks the paths that they came by." }), make("div", { class: "arrays" }, ...terms)));
    }
    if (s.gradient && there(s.gradient.of)) {
      found.push(make("div", { class: "panel" }, make("h2", {}, `${s.name} is the gradient of `, make("code", { text: s.gradient.name })),
        map(step(s.gradient.of).array, s.gradient.name, s.gradient.of, { note: link(s.gradient.of) })));
    }
    found.push(following());
    return found;
  }

  // The backward step that has the gradient of the value of step n.
  const gradientOf = (n) => steps.findIndex((s) => s.gradient && s.gradient.of === n);

  function following() {
    const box = make("div", { class: "panel", "aria-live": "polite" }, make("h2", { text: "One number" }));
    if (!chosen) {
      box.append(make("p", { class: "faint", text: "Choose a number, by a click or by Enter, to see where it came from and where it goes." }));
      return box;
    }
    const { step: n, i } = chosen, value = arrays[step(n).array].values[i];
    box.append(make("p", {}, make("code", { text: `${named(n, i)} = ${said(value, 6)}` }), " of ", link(n)));
    const one = (reach[n] || [])[i];
    if (!one) {
      box.append(make("p", { class: "faint", text: `This number was not followed: ${data.followed} were, in the first steps.` }));
    } else if (one.loss !== null) box.append(verdict(n, i, one.loss));
    const rows = [];
    for (let m = first; m <= last; m++) {
      const count = m === n ? 0 : links(m).size;
      if (count) rows.push(make("tr", {}, make("td", {}, link(m)), make("td", { text: m < n ? "from" : "to" }), make("td", {}, make("code", { text: step(m).name })), make("td", { text: `${count} of ${arrays[step(m).array].values.length}` })));
    }
    if (rows.length) box.append(make("div", { class: "moves" }, make("table", {}, make("tr", {}, ...["step", "", "name", "numbers"].map((text) => make("th", { scope: "col", text }))), ...rows)));
    if (n <= data.forward_end && data.forward_end < last) box.append(make("p", {}, make("label", {}, make("input", { type: "checkbox", checked: second, on: { change: (event) => { second = event.target.checked; draw(); } } }), " mark the gradients that would change with it, too")));
    box.append(make("button", { type: "button", text: "Let go", on: { click: release } }));
    return box;
  }

  // The gradient by the backward beside the difference quotient.
  function verdict(n, i, measured) {
    const at = gradientOf(n);
    if (data.forward_end >= last || at < 0) return make("p", { text: `∂L/∂${named(n, i)} = ${said(measured, 4)} by differences; no step of the backward is its gradient alone.` });
    const traced = arrays[steps[at].array].values[i];
    const slack = 1e-5 * Math.max(1, ...arrays[steps[at].array].values.filter(finite).map(Math.abs));
    const agree = Math.abs(traced - measured) <= slack;
    return make("p", {}, `∂L/∂${named(n, i)}: ${said(traced, 5)} by the backward, `, link(first + at), `; ${said(measured, 5)} by a difference quotient: `,
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
