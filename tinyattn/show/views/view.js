// One script for all views. Data comes from the page as JSON; what is shown is text, never markup; nothing is fetched.
"use strict";
(() => {

// ---- The ground: elements, numbers, colours

// An element. `how`: class, text, on (events), data (data-*); everything else is an attribute.
function make(tag, how = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(how)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (name === "data") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const finite = (x) => typeof x === "number" && Number.isFinite(x);

// Three digits, or `digits`; a minus sign that can be seen.
function said(x, digits = 3) {
  if (typeof x === "boolean") return x ? "T" : "F";
  if (!finite(x)) return { inf: "∞", "-inf": "−∞", Infinity: "∞", "-Infinity": "−∞" }[x] || String(x);
  const size = Math.abs(x);
  let text = Number.isInteger(x) && size < 1e6 ? String(x)
    : size !== 0 && (size < 1e-3 || size >= 1e5) ? x.toExponential(digits - 2) : String(Number(x.toPrecision(digits)));
  return text.replace(/^-/, "−");
}

const dark = window.matchMedia("(prefers-color-scheme: dark)"), print = window.matchMedia("print");
const theme = () => (dark.matches && !print.matches ? "dark" : "light");
const onTheme = (draw) => [dark, print].forEach((media) => media.addEventListener("change", draw));
const PALETTE = { light: { zero: [255, 255, 255], above: [190, 92, 6], below: [84, 39, 136], most: [8, 81, 156] },
                  dark: { zero: [28, 30, 36], above: [241, 163, 64], below: [165, 150, 220], most: [107, 174, 214] } };

// -> what colours a number: white (in the dark: black) at zero, two hues for two signs, one for what has none.
function colours(values) {
  let low = 0, high = 0;
  for (const x of values) if (finite(x)) { if (x < low) low = x; else if (x > high) high = x; }
  const most = Math.max(-low, high) || 1;
  const colour = (x) => {
    const palette = PALETTE[theme()];
    if (typeof x === "boolean") x = x ? 0.6 * most : 0;
    if (!finite(x)) return null;
    const end = low < 0 ? (x < 0 ? palette.below : palette.above) : palette.most;
    const part = Math.min(1, Math.abs(x) / most);
    return palette.zero.map((zero, i) => Math.round(zero + (end[i] - zero) * part));
  };
  return Object.assign(colour, { most });
}

// Black or white, whichever is told from the ground more easily: a contrast of at least 4.5 (WCAG 2, relative luminance).
function inkOn(rgb) {
  const [r, g, b] = rgb.map((x) => (x <= 10 ? x / 3294.6 : ((x / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}
const css = (rgb) => `rgb(${rgb.join(",")})`;

// A matrix as pixels, one a number, in 255 shades of each sign.
function image(context, values, rows, columns, colour) {
  const pixels = context.createImageData(columns, rows), data = pixels.data, shades = new Uint8Array(3 * 511), { most } = colour;
  for (let i = -255; i <= 255; i++) shades.set(colour((most * i) / 255), 3 * (i + 255));
  for (let i = 0; i < rows * columns; i++) {
    const x = values[i] === true ? 0.6 * most : values[i] === false ? 0 : values[i];
    if (!finite(x)) continue;
    const at = 3 * (Math.round((255 * x) / most) + 255);
    data[4 * i] = shades[at];
    data[4 * i + 1] = shades[at + 1];
    data[4 * i + 2] = shades[at + 2];
    data[4 * i + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
}

// The place of a flat index, as in NumPy: [1, 0, 2].
function place(index, shape) {
  const found = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    found.unshift(index % shape[axis]);
    index = Math.floor(index / shape[axis]);
  }
  return found;
}

const LARGE = 900;      // numbers: more are drawn as a picture, without their digits

// An array as a grid of numbers, or a picture of one. Of more than two axes one matrix is shown, and chosen from.
// `how`: name, onChoose(flat index), onEdit(flat index, number), chosen, linked (Map: flat index -> what is said of it),
// rows, columns (labels). `.update(values)` shows others in its place.
function heatMap(array, how) {
  const { shape } = array;
  let values = array.values;
  const rows = shape.length > 1 ? shape[shape.length - 2] : 1;
  const columns = shape.length ? shape[shape.length - 1] : 1;
  const matrices = values.length / Math.max(1, rows * columns);
  let colour = colours(values), cells = [];
  const node = make("div", { class: "array" });
  const linked = how.linked || new Map();
  let shown = 0;
  if (how.chosen !== undefined && how.chosen !== null) shown = Math.floor(how.chosen / (rows * columns));
  else if (linked.size) shown = Math.floor(linked.keys().next().value / (rows * columns));
  const of = (i) => `${how.name}${shape.length ? `[${place(i, shape).join(", ")}]` : ""}`;
  const spoken = (i) => `${of(i)} = ${said(values[i], 6)}${linked.has(i) ? `; ${linked.get(i)}` : ""}`;
  const body = make("div", { class: "scroll" });

  function draw() {
    body.replaceChildren(!values.length ? make("p", { class: "faint", text: "no numbers" })
      : rows * columns > LARGE ? picture() : grid());
  }

  function choose(i) { if (how.onChoose) how.onChoose(i); }

  function grid() {
    const from = shown * rows * columns;
    let cursor = how.chosen >= from && how.chosen < from + rows * columns ? how.chosen - from : 0;
    cells = [];
    const table = make("table", { class: "grid", role: "grid", "aria-label": `${how.name}, ${shape.join(" by ") || "a number"}` });
    if (how.columns) table.append(make("tr", {}, make("th"), ...how.columns.map((text) => make("th", { scope: "col", text, title: text }))));
    for (let r = 0; r < rows; r++) {
      const row = make("tr", { role: "row" });
      if (how.rows) row.append(make("th", { scope: "row", text: how.rows[r], title: how.rows[r] }));
      for (let c = 0; c < columns; c++) {
        const i = from + r * columns + c;
        const cell = make("td", { role: "gridcell", tabindex: cells.length === cursor ? 0 : -1, "aria-selected": String(i === how.chosen), data: { i },
          class: i === how.chosen ? "chosen" : linked.has(i) ? "linked" : how.onEdit ? "edited" : null, on: { click: () => choose(i) } });
        if (how.onEdit) cell.addEventListener("pointerdown", (event) => drag(event, cell, i));
        cells.push(cell);
        paint(cell);
        row.append(cell);
      }
      table.append(row);
    }
    table.addEventListener("focusin", (event) => {
      if (!cells.includes(event.target)) return;
      cells[cursor].tabIndex = -1;
      cursor = cells.indexOf(event.target);
      cells[cursor].tabIndex = 0;
    });
    table.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
      const change = { "+": 0.1, "=": 0.1, "-": -0.1, "−": -0.1, PageUp: 1, PageDown: -1, Delete: -values[from + cursor] }[event.key];
      if (event.key === "Enter" || event.key === " ") choose(from + cursor);
      else if (how.onEdit && change !== undefined) how.onEdit(from + cursor, rounded(values[from + cursor] + change));
      else if (step === undefined) return;
      else if (cells[cursor + step]) cells[cursor + step].focus();
      event.preventDefault();
      event.stopPropagation();
    });
    return table;
  }

  const rounded = (x) => Math.round(x * 1e6) / 1e6;

  function paint(cell) {
    const i = Number(cell.dataset.i), value = values[i], rgb = colour(value);
    cell.textContent = said(value);
    cell.title = spoken(i);
    cell.setAttribute("aria-label", spoken(i));
    cell.dataset.value = String(value);
    cell.style.background = rgb ? css(rgb) : "";
    cell.style.color = rgb ? inkOn(rgb) : "";
  }

  // Up is more, down is less: a hundred pixels are 1.
  function drag(event, cell, i) {
    const from = values[i], y = event.clientY;
    const move = (to) => how.onEdit(i, rounded(from + Math.round(y - to.clientY) / 100));
    const end = () => { cell.removeEventListener("pointermove", move); cell.removeEventListener("pointerup", end); };
    cell.setPointerCapture(event.pointerId);
    cell.addEventListener("pointermove", move);
    cell.addEventListener("pointerup", end);
  }

  // Other numbers of the same shape; what has the focus keeps it.
  node.update = (others) => {
    values = others;
    colour = colours(values);
    if (cells.length) cells.forEach(paint); else draw();
  };

  function picture() {
    const from = shown * rows * columns, size = Math.max(2, Math.min(8, Math.floor(560 / columns)));
    const canvas = make("canvas", { width: columns * size, height: rows * size, tabindex: 0, role: "img" });
    const label = make("p", { class: "number", "aria-live": "polite" });
    let cursor = how.chosen >= from ? how.chosen - from : 0;
    const context = canvas.getContext("2d");
    const pixels = make("canvas", { width: columns, height: rows });
    image(pixels.getContext("2d"), values.slice(from, from + rows * columns), rows, columns, colour);
    context.imageSmoothingEnabled = false;
    context.drawImage(pixels, 0, 0, columns * size, rows * size);
    context.strokeStyle = theme() === "dark" ? "#7cc4ff" : "#0058a3";
    for (const i of linked.keys()) if (i >= from && i < from + rows * columns) box(i - from);
    if (how.chosen >= from && how.chosen < from + rows * columns) { context.strokeStyle = theme() === "dark" ? "#ffffff" : "#000000"; box(how.chosen - from); }
    function box(i) { context.strokeRect((i % columns) * size + 0.5, Math.floor(i / columns) * size + 0.5, size - 1, size - 1); }
    function point(i) {
      cursor = i;
      label.textContent = spoken(from + i);
      canvas.setAttribute("aria-label", `${how.name}, ${shape.join(" by ")}: ${spoken(from + i)}`);
    }
    const at = (event) => {
      const frame = canvas.getBoundingClientRect();
      const c = Math.floor(((event.clientX - frame.left) / frame.width) * columns);
      const r = Math.floor(((event.clientY - frame.top) / frame.height) * rows);
      return Math.max(0, Math.min(rows - 1, r)) * columns + Math.max(0, Math.min(columns - 1, c));
    };
    canvas.addEventListener("mousemove", (event) => point(at(event)));
    canvas.addEventListener("click", (event) => choose(from + at(event)));
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
      if (event.key === "Enter" || event.key === " ") choose(from + cursor);
      else if (step === undefined) return;
      else if (cursor + step >= 0 && cursor + step < rows * columns) point(cursor + step);
      event.preventDefault();
      event.stopPropagation();
    });
    point(cursor);
    return make("div", {}, canvas, label);
  }

  const head = make("h3", {}, make("code", { text: how.name }), ` ${shape.length ? `(${shape.join(", ")})` : "a number"}`);
  if (how.note) head.append(" ", how.note);
  node.append(head);
  if (matrices > 1) {
    const select = make("select", { "aria-label": `which matrix of ${how.name}`, on: { change: () => { shown = Number(select.value); draw(); } } });
    for (let i = 0; i < matrices; i++) {
      select.append(make("option", { value: i, text: `[${place(i, shape.slice(0, -2)).join(", ")}]`, selected: i === shown }));
    }
    node.append(select);
  }
  node.append(body);
  draw();
  return node;
}

// ---- The player: a trace, step by step

function player(data, root) {
  const { steps, calls, functions, arrays, reach, first } = data;
  const last = first + steps.length - 1;
  const step = (n) => steps[n - first];
  const there = (n) => n !== null && n !== undefined && n >= first && n <= last;
  let now = first, chosen = null, timer = null;              // chosen: { step, i }

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
        const top = item.offsetTop - outline.offsetTop;
        if (top < outline.scrollTop || top > outline.scrollTop + outline.clientHeight - 30) outline.scrollTop = top - 60;
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
    const name = named(chosen.step, chosen.i);
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
    window.requestAnimationFrame(() => {
      const line = pre.querySelector(`.${kind}`);
      if (line) pre.scrollTop = line.offsetTop - pre.offsetTop - 0.4 * pre.clientHeight;
    });
    return make("div", { class: "panel" }, make("h2", { text: heading }), make("p", { class: "faint" }, make("code", { text: call.label }), `  ${of.file}`), pre);
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

// ---- The bench: attention that can be turned

// Attention of q (n, D), k (m, D) and v (m, E) in h heads, and its gradients for dout (n, E): as ops/attention/attention.py
// has it.
// `mask` (n m): true = may look; a row with nothing allowed gives zeros.
function attend({ n, m, D, E, q, k, v, dout, mask, scale, heads }) {
  const d = D / heads, e = E / heads, of = (size) => new Array(size).fill(0);
  const found = { raw: of(heads * n * m), scores: of(heads * n * m), weights: of(heads * n * m), out: of(n * E), dq: of(n * D), dk: of(m * D), dv: of(m * E) };
  for (let head = 0; head < heads; head++) {
    const at = head * d, from = head * e, base = head * n * m;
    for (let i = 0; i < n; i++) {
      let most = -Infinity, sum = 0;
      for (let j = 0; j < m; j++) {
        let dot = 0;
        for (let c = 0; c < d; c++) dot += q[i * D + at + c] * k[j * D + at + c];
        found.raw[base + i * m + j] = dot;
        const s = mask[i * m + j] ? scale * dot : -Infinity;
        found.scores[base + i * m + j] = s;
        most = Math.max(most, s);
      }
      const p = [];
      for (let j = 0; j < m; j++) { p[j] = most === -Infinity ? 0 : Math.exp(found.scores[base + i * m + j] - most); sum += p[j]; }
      for (let j = 0; j < m; j++) {
        p[j] = sum ? p[j] / sum : 0;
        found.weights[base + i * m + j] = p[j];
        for (let c = 0; c < e; c++) found.out[i * E + from + c] += p[j] * v[j * E + from + c];
      }
      const dp = [];                                         // out = p v: dp = dout vᵀ, dv = pᵀ dout
      let mean = 0;
      for (let j = 0; j < m; j++) {
        dp[j] = 0;
        for (let c = 0; c < e; c++) {
          dp[j] += dout[i * E + from + c] * v[j * E + from + c];
          found.dv[j * E + from + c] += p[j] * dout[i * E + from + c];
        }
        mean += p[j] * dp[j];
      }
      for (let j = 0; j < m; j++) {                          // p = softmax(s): ds = p (dp - Σ p dp); s = scale q kᵀ
        const ds = scale * p[j] * (dp[j] - mean);
        for (let c = 0; c < d; c++) {
          found.dq[i * D + at + c] += ds * k[j * D + at + c];
          found.dk[j * D + at + c] += ds * q[i * D + at + c];
        }
      }
    }
  }
  return found;
}

function bench(data, root) {
  const { tokens, goal } = data, n = tokens.length, D = data.q.length / n, E = data.v.length / n;
  const now = { n, m: n, D, E, q: [...data.q], k: [...data.k], v: [...data.v], dout: [...data.dout], mask: [...data.mask], scale: data.scale, heads: data.heads };
  const has = (part) => !data.hide.includes(part);
  const natural = () => 1 / Math.sqrt(D / now.heads);
  const causal = (i, j) => j <= i;
  const masks = { nothing: () => true, "what comes later": causal, "itself": (i, j) => i !== j };
  const verdict = make("p", { role: "status" });
  const code = make("textarea", { rows: 8, readonly: true, "aria-label": "these numbers, as Python", class: "number" });
  const scale = make("input", { type: "range", min: 0, max: 3, step: 0.01, "aria-label": "scale", on: { input: () => set({ scale: Number(scale.value) }) } });
  const scaleSaid = make("span", { class: "number" });
  const heads = make("select", { "aria-label": "heads", on: { change: () => set({ heads: Number(heads.value) }, true) } });
  for (let h = 1; h <= D; h++) if (D % h === 0 && E % h === 0) heads.append(make("option", { value: h, text: h, selected: h === now.heads }));
  const hides = make("select", { "aria-label": "the mask hides", on: { change: () => set({ mask: now.mask.map((_, i) => masks[hides.value](Math.floor(i / n), i % n)) }) } },
    ...Object.keys(masks).map((text) => make("option", { value: text, text })), make("option", { value: "", text: "as chosen below", disabled: true }));
  hides.value = Object.keys(masks).find((key) => now.mask.every((x, i) => x === masks[key](Math.floor(i / n), i % n))) || "";
  const button = (text, action) => make("button", { type: "button", text, on: { click: action } });
  const controls = make("div", { class: "controls", role: "group", "aria-label": "settings" },
    ...(has("scale") ? [make("label", {}, "scale ", scale), scaleSaid, button("1 / √d", () => set({ scale: natural() }))] : []),
    has("heads") ? make("label", {}, "heads ", heads) : null, has("mask") ? make("label", {}, "the mask hides ", hides) : null,
    button("Start again", () => { Object.assign(now, { q: [...data.q], k: [...data.k], v: [...data.v], dout: [...data.dout], mask: [...data.mask], scale: data.scale, heads: data.heads }); heads.value = now.heads; build(); }));
  const body = make("div");
  root.replaceChildren(make("h1", { text: data.title }), make("p", { class: "faint",
    text: `Drag a number of q, k${has("backward") ? ", v or dout" : " or v"} up or down, or press + and −; the rest follows.${has("mask") ? " A click on the mask lets a token look, or not." : ""}` }),
    goal ? make("p", {}, make("strong", { text: goal.says })) : "", verdict, controls, body, make("details", {}, make("summary", { text: "These numbers, as Python" }), code));
  let maps = {};

  function set(changes, anew = false) {
    Object.assign(now, changes);
    if (anew) build(); else show();
  }

  function section(title, ...nodes) { return make("section", { class: "panel", "aria-label": title }, make("h2", { text: title }), make("div", { class: "arrays" }, ...nodes)); }

  function build() {
    const found = attend(now), square = now.heads > 1 ? [now.heads, n, n] : [n, n], width = { q: D, k: D, v: E, dout: E, out: E, dq: D, dk: D, dv: E };
    const labels = (name) => Array.from({ length: width[name] }, (_, c) => String(c));
    maps = {};
    const edit = (name) => (maps[name] = heatMap({ shape: [n, width[name]], values: now[name] }, { name, rows: tokens, columns: labels(name),
      onEdit: (i, x) => { now[name] = now[name].with(i, x); show(); } }));
    const map = (name, said) => (maps[name] = heatMap({ shape: name in width ? [n, width[name]] : square, values: found[name] },
      { name: said || name, rows: tokens, columns: name in width ? labels(name) : tokens }));
    const mask = () => (maps.mask = heatMap({ shape: [n, n], values: now.mask }, { name: "mask", rows: tokens, columns: tokens,
      onChoose: (i) => { now.mask = now.mask.with(i, !now.mask[i]); hides.value = ""; show(); } }));
    const scores = `${has("scale") ? "scale · " : ""}q kᵀ${has("scale") ? "" : " / √d"}${has("mask") ? ", masked" : ""}`;
    body.replaceChildren(
      section("What goes in", edit("q"), edit("k"), edit("v"), has("mask") ? mask() : null),
      section("Scores, then weights", map("raw", "q kᵀ"), map("scores", scores), map("weights")),
      section("What comes out", map("out")),
      ...(has("backward") ? [section("Backward: from the gradient of the output", edit("dout"), map("dq"), map("dk"), map("dv"))] : []));
    show();
  }

  function show() {
    const found = attend(now);
    for (const [name, map] of Object.entries(maps)) map.update(found[name] || now[name]);
    scale.value = now.scale;
    scaleSaid.textContent = `${said(now.scale, 4)}${Math.abs(now.scale - natural()) < 1e-9 ? " = 1 / √d" : ""}`;
    const rows = (name) => Array.from({ length: n }, (_, i) => `[${now[name].slice((i * now[name].length) / n, ((i + 1) * now[name].length) / n).join(", ")}]`).join(", ");
    code.value = ["q", "k", "v", ...(has("backward") ? ["dout"] : [])].map((name) => `${name} = np.array([${rows(name)}])`).concat(`scale, heads = ${now.scale}, ${now.heads}`).join("\n");
    if (goal) {
      const share = found.weights.filter((_, i) => Math.floor(i / n) % n === goal.row && i % n === goal.column).reduce((a, b) => Math.min(a, b), 1);
      const done = share >= goal.least;
      verdict.textContent = done ? `Done: the weight is ${said(share)}.` : `The weight is ${said(share)}; ${said(goal.least)} is asked for.`;
      verdict.className = done ? "agree" : "";
    }
  }
  onTheme(build);
  build();
}

// ---- The visualiser: who looks at whom in a model

// Bits, and float32 numbers, of base64.
function bytes(text) {
  const binary = atob(text), found = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) found[i] = binary.charCodeAt(i);
  return found;
}
const floats = (packed) => new Float32Array(bytes(packed.f4).buffer);

// One layer's attention of one sequence, as the library gave it: scores and weights are made of it on demand.
class LayerSeen {
  constructor(data) {
    Object.assign(this, data);
    for (const name of ["q", "k", "v", "bias", "weights"]) this[name] = data[name] === null ? null : floats(data[name]);
    this.gradients = data.gradients.map(floats);
    const packed = data.allowed === null ? null : bytes(data.allowed);
    this.may = packed === null ? () => true : (i, j) => ((packed[(i * this.m + j) >> 3] >> ((i * this.m + j) & 7)) & 1) === 1;
    this.fromScores = this.weights === null;
    this.made = new Map();
  }
  keep(name, make) { if (!this.made.has(name)) this.made.set(name, make()); return this.made.get(name); }
  dot(a, i, b, j, head) {
    const { n, m, d } = this;
    let sum = 0;
    for (let c = 0; c < d; c++) sum += a[(head * n + i) * d + c] * b[(head * m + j) * d + c];
    return sum;
  }
  // The stages from a score to a weight, of query i and key j.
  stages(head, i, j) {
    const raw = this.dot(this.q, i, this.k, j, head), scaled = this.scale * raw;
    const bias = this.bias === null ? null : this.bias[(head * this.n + i) * this.m + j];
    return { raw, scaled, bias, score: this.may(i, j) ? scaled + (bias || 0) : -Infinity };
  }
  // (n m) weights of a head; head -1: the mean over heads.
  weightsOf(head) {
    return this.keep(`weights ${head}`, () => {
      const { n, m, heads } = this, found = new Float64Array(n * m);
      if (head < 0) {
        for (let h = 0; h < heads; h++) this.weightsOf(h).forEach((w, at) => { found[at] += w / heads; });
        return found;
      }
      if (!this.fromScores) return Float64Array.from(this.weights.subarray(head * n * m, (head + 1) * n * m));
      for (let i = 0; i < n; i++) {
        let most = -Infinity, sum = 0;
        for (let j = 0; j < m; j++) {
          const at = i * m + j;
          found[at] = this.may(i, j) ? this.scale * this.dot(this.q, i, this.k, j, head) + (this.bias === null ? 0 : this.bias[head * n * m + at]) : -Infinity;
          if (found[at] > most) most = found[at];
        }
        for (let j = 0; j < m; j++) sum += found[i * m + j] = most === -Infinity ? 0 : Math.exp(found[i * m + j] - most);
        if (sum) for (let j = 0; j < m; j++) found[i * m + j] /= sum;
      }
      return found;
    });
  }
  // (n m): the gradient of an output by each weight, dout vᵀ; with `times`, times the weight. head -1: summed over heads.
  gradientOf(output, head, times) {
    return this.keep(`gradient ${output} ${head} ${times}`, () => {
      const { n, m, heads } = this, found = new Float64Array(n * m), dout = this.gradients[output];
      for (const h of head < 0 ? Array.from({ length: heads }, (_, x) => x) : [head]) {
        const weights = times ? this.weightsOf(h) : null;
        for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) {
          if (this.may(i, j)) found[i * m + j] += this.dot(dout, i, this.v, j, h) * (times ? weights[i * m + j] : 1);
        }
      }
      return found;
    });
  }
}

function visualiser(data, root) {
  const runs = data.runs.map((run) => ({ ...run, layers: run.layers.map((layer) => new LayerSeen(layer)) }));
  const tokens = runs[0].tokens, n = tokens.length;
  const state = { token: n - 1, other: null, layer: 0, head: 0, lens: "weights", output: 0 };
  const LENSES = {
    weights: ["attention weights", "Each row sums to 1. A weight says what was taken, not what mattered: the output may not depend on it."],
    rollout: ["roll-out up to this layer", "Products of (mean weights + 1) / 2, layer by layer (Abnar & Zuidema 2020): where tokens could have come from. It leaves out values, feed-forward networks and norms."],
    gradient: ["gradient by each weight", "How fast the chosen output changes with a weight, all else held. A weight cannot change alone: its row sums to 1."],
    product: ["gradient times weight", "To first order, what the chosen output would lose if the weight were 0. It sees no interactions."],
  };
  const backward = () => state.lens === "gradient" || state.lens === "product";
  const select = (label, options, key, number = true) => {
    const box = make("select", { "aria-label": label, on: { change: () => { state[key] = number ? Number(box.value) : box.value; draw(); } } },
      ...options.map(([value, text]) => make("option", { value, text })));
    return box;
  };
  const most = Math.max(...runs.map((run) => run.layers.length)), heads = Math.max(...runs.flatMap((run) => run.layers.map((layer) => layer.heads)));
  const lens = select("view", Object.entries(LENSES).map(([key, [text]]) => [key, text]), "lens", false);
  const layer = select("layer", Array.from({ length: most }, (_, i) => [i, `layer ${i + 1}`]), "layer");
  const head = select("head", [...Array.from({ length: heads }, (_, i) => [i, `head ${i + 1}`]), [-1, "all heads"]], "head");
  const output = select("output", runs[0].outputs.map((one, i) => [i, one.says]), "output");
  const note = make("p", { class: "faint" }), body = make("div", { class: runs.length > 1 ? "beside" : null });
  const strip = make("div", { class: "tokens", role: "group", "aria-label": "tokens: choose the one that looks" });
  root.replaceChildren(make("h1", { text: data.title }), data.note ? make("p", { text: data.note }) : "",
    make("div", { class: "controls", role: "group", "aria-label": "what is shown" }, lens, layer, head, make("label", {}, "of ", output)),
    note, make("section", { class: "panel", "aria-label": "tokens" }, make("h2", { text: "Who looks" }), strip), body);
  const buttons = tokens.map((text, i) => make("button", { type: "button", text: text || " ", title: text, on: { click: () => { state.token = i; draw(); }, mouseenter: () => { state.token = i; draw(); }, focus: () => { state.token = i; draw(); } } }));
  strip.append(...buttons);

  const of = (run) => run.layers[Math.min(state.layer, run.layers.length - 1)];
  const headOf = (layer) => Math.min(state.head, layer.heads - 1);

  // (n n): roll-out up to a layer. What lies right of a row's last number is 0, and is not multiplied.
  function rollout(run, upto) {
    return run.layers[0].keep(`rollout ${upto}`, () => {
      const weights = run.layers[upto].weightsOf(-1), now = new Float64Array(n * n);
      for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) now[i * n + j] = (weights[i * n + j] + (i === j ? 1 : 0)) / 2;
      if (upto === 0) return now;
      const below = rollout(run, upto - 1), product = new Float64Array(n * n), ends = [];
      for (let j = 0; j < n; j++) for (ends[j] = n; ends[j] && !below[j * n + ends[j] - 1];) ends[j]--;
      for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
        const share = now[i * n + j];
        if (share) for (let c = 0; c < ends[j]; c++) product[i * n + c] += share * below[j * n + c];
      }
      return product;
    });
  }

  function matrix(run, at = of(run), h = headOf(at)) {
    if (state.lens === "weights") return at.weightsOf(h);
    if (state.lens === "rollout") return rollout(run, run.layers.indexOf(at));
    return at.gradientOf(state.output, h, state.lens === "product");
  }

  // Draws what a change of the state has to do with; all of it, at first and in other colours.
  let was = null;
  const panels = runs.map(panel);
  body.replaceChildren(...panels.map((one) => one.node));
  function draw() {
    const changed = (...names) => was === null || names.some((name) => was[name] !== state[name]);
    note.textContent = LENSES[state.lens][1];
    output.disabled = !backward();
    if (changed("token")) buttons.forEach((button, i) => { if (i === state.token) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current"); });
    for (const one of panels) one.draw(changed);
    was = { ...state };
  }

  function panel(run) {
    const part = (name) => make("section", { class: "panel", "aria-label": name });
    const seen = part("seen"), map = part("matrix"), heads = grid(run), stages = part("steps"), read = part("inputs");
    const node = make("div", {}, runs.length > 1 ? make("h2", { text: run.title }) : null, seen, map, heads.node, stages, read, shuffled(run));
    const looks = looking(seen), steps = stepping(stages);
    const choose = (i) => { state.token = Math.floor(i / n); state.other = i % n; draw(); };
    function show(changed) {
      const at = of(run), h = headOf(at), title = `layer ${run.layers.indexOf(at) + 1}, ${h < 0 ? "all heads" : `head ${h + 1}`}`;
      const other = changed("lens", "layer", "head", "output");
      if (other || changed("token")) looks(matrix(run, at, h), title);
      if (other) {
        map.replaceChildren(make("h2", { text: "All tokens: rows look at columns" }), heatMap({ shape: [n, n], values: matrix(run, at, h) },
          { name: LENSES[state.lens][0], rows: tokens, columns: tokens, note: make("span", { class: "faint", text: title }), onChoose: choose }));
      }
      if (other || changed("token", "other")) steps(at, h);
      if (changed("lens", "output")) inputs(read, run);
      heads.draw(changed);
    }
    return { node, draw: show };
  }

  // What the chosen token looks at, token by token: elements that are made once and filled anew.
  function looking(box) {
    const heading = make("h2"), total = make("p", { class: "number" }), seen = make("div", { class: "tokens", role: "list" });
    const items = tokens.map((text) => make("span", { role: "listitem" }, text || " ", make("small")));
    seen.append(...items);
    box.append(heading, seen, total);
    return (values, title) => {
      const row = values.subarray(state.token * n, (state.token + 1) * n), colour = colours(row), sum = row.reduce((a, b) => a + b, 0);
      seen.setAttribute("aria-label", `what ${tokens[state.token]} looks at`);
      items.forEach((item, j) => {
        const rgb = colour(row[j]);
        item.lastChild.textContent = said(row[j], 2);
        item.title = `${tokens[j]}: ${said(row[j], 4)}`;
        item.setAttribute("aria-label", `${tokens[j]}, ${said(row[j], 3)}`);
        item.dataset.value = String(row[j]);
        item.style.cssText = rgb ? `background: ${css(rgb)}; color: ${inkOn(rgb)}` : "";
      });
      total.textContent = backward() ? `sum ${said(sum, 4)}` : `the weights sum to ${said(sum, 4)}`;
      heading.replaceChildren("What ", make("code", { text: tokens[state.token] }), ` ${backward() ? "would pass on" : "looks at"}, ${title}`);
    };
  }

  // Every layer and head, small: one is drawn a frame, so that none takes long.
  function grid(run) {
    const table = make("table", { class: "small" }), all = [];
    let waiting = [], asked = false;
    run.layers.forEach((one, l) => {
      const line = make("tr", {}, make("th", { scope: "row", text: `layer ${l + 1}` }));
      for (let h = 0; h < one.heads; h++) {
        const canvas = make("canvas", { width: n, height: n, "aria-hidden": "true" });
        canvas.style.width = canvas.style.height = "72px";
        const pick = make("button", { type: "button", "aria-label": `layer ${l + 1}, head ${h + 1}`,
          on: { click: () => { Object.assign(state, { layer: l, head: h }); layer.value = l; head.value = h; draw(); } } }, canvas);
        line.append(make("td", {}, pick));
        all.push({ one, h, canvas, pick });
      }
      table.append(line);
    });
    function next() {
      const { one, h, canvas } = waiting.shift(), values = matrix(run, one, h);
      image(canvas.getContext("2d"), values, n, n, colours(values));
      asked = waiting.length > 0;
      if (asked) window.requestAnimationFrame(next);
    }
    return {
      node: make("section", { class: "panel", "aria-label": "layers and heads" }, make("h2", { text: "Layers and heads" }), table),
      draw(changed) {
        if (changed("layer", "head")) for (const { one, h, pick } of all) pick.setAttribute("aria-pressed", String(one === of(run) && h === headOf(one)));
        if (!changed("lens", "output")) return;
        waiting = [...all];
        if (!asked) window.requestAnimationFrame(next);
        asked = true;
      },
    };
  }

  // From a score to a weight, for every key of the chosen query; the vectors of one of them. Arrow keys choose which.
  // Rows are made once for what stands in the columns, and filled anew.
  function stepping(box) {
    const heading = make("h2"), other = make("p", { class: "faint", text: "This mechanism makes its weights in another way; queries and keys are those that it was given." });
    const scroll = make("div", { class: "scroll", role: "group", tabindex: 0 }), vectors = make("div");
    const choose = (key) => { state.other = Math.max(0, Math.min(n - 1, key)); draw(); };
    let columns = "", lines = [], now = 0;
    box.append(heading, other, scroll, vectors);
    scroll.addEventListener("keydown", (event) => {
      const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      choose(now + by);
      lines[now].scrollIntoView({ block: "nearest" });
    });
    return (at, h) => {
      const one = h < 0 ? 0 : h, i = state.token, j = state.other === null ? i : state.other, weights = at.weightsOf(one);
      const bias = at.bias !== null, names = ["token", "q·k", "× " + said(at.scale, 3), ...(bias ? ["+ bias"] : []), "masked", "weight"];
      const gradient = backward() ? at.gradientOf(state.output, one, false) : null, product = backward() ? at.gradientOf(state.output, one, true) : null;
      if (gradient) names.push("gradient", "× weight");
      if (names.join() !== columns) {
        lines = tokens.map((text, key) => make("tr", { on: { click: () => choose(key) } }, make("th", { scope: "row", text, title: text }), ...names.slice(1).map(() => make("td"))));
        scroll.replaceChildren(make("table", { class: "steps" }, make("tr", {}, ...names.map((text) => make("th", { scope: "col", text }))), ...lines));
        columns = names.join();
      }
      lines.forEach((line, key) => {
        const s = at.stages(one, i, key), cells = [s.raw, s.scaled, ...(bias ? [s.bias] : []), at.fromScores ? s.score : null, weights[i * n + key]];
        if (gradient) cells.push(gradient[i * n + key], product[i * n + key]);
        cells.forEach((x, c) => {
          line.children[c + 1].textContent = x === null ? "" : said(x);
          line.children[c + 1].dataset.value = String(x);
        });
      });
      if (now < n) { lines[now].removeAttribute("class"); lines[now].removeAttribute("aria-current"); }
      now = j;
      lines[j].className = "now";
      lines[j].setAttribute("aria-current", "true");
      other.hidden = at.fromScores;
      scroll.setAttribute("aria-label", `steps from scores to weights; up and down choose a key: ${tokens[j]}`);
      heading.replaceChildren("From scores to weights: ", make("code", { text: tokens[i] }), `, head ${one + 1}`);
      const vector = (name, from, token, count) => heatMap({ shape: [at.d], values: from.subarray((one * count + token) * at.d, (one * count + token + 1) * at.d) }, { name: `${name} of ${tokens[token]}` });
      vectors.replaceChildren(vector("q", at.q, i, at.n), vector("k", at.k, j, at.m), vector("v", at.v, j, at.m));
    };
  }

  // What each input token does to the chosen output.
  function inputs(box, run) {
    box.hidden = !backward() || !run.inputs;
    if (box.hidden) return;
    box.replaceChildren(make("h2", { text: `Gradient times input: ${run.outputs[state.output].says}` }),
      make("p", { class: "faint", text: "To first order, what the output would lose if what goes into the first block for a token were 0." }),
      heatMap({ shape: [1, n], values: floats(run.inputs[state.output]) }, { name: "input", columns: tokens }));
  }

  function shuffled(run) {
    const lines = run.shuffled.map((one, l) => make("tr", {}, make("td", { text: `layer ${l + 1}` }), make("td", { text: said(one.moved) }), make("td", { text: said(one.spread) })));
    return make("section", { class: "panel", "aria-label": "is it an explanation?" }, make("h2", { text: "Is attention an explanation here?" }),
      make("p", { text: "The last token's weights are dealt out to other tokens at random, in one layer at a time. If the best score hardly moves, beside the spread of all scores, those weights do not explain it." }),
      make("div", { class: "scroll" }, make("table", { class: "steps" }, make("tr", {}, ...["", "the best score moves by", "spread of all scores"].map((text) => make("th", { scope: "col", text }))), ...lines)));
  }
  onTheme(() => { was = null; draw(); });
  draw();
}

const VIEWS = { player, bench, visualiser };
const root = document.getElementById("view");
VIEWS[root.dataset.kind](JSON.parse(document.getElementById("data").textContent), root);
})();
