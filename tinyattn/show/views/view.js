// One script for all views. Data comes from the page as JSON; what is shown is text, never markup; nothing is fetched.
"use strict";
(() => {

const root = document.getElementById("view");

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
let onPaper = false;                                         // what is drawn for a file is light
const theme = () => (dark.matches && !print.matches && !onPaper ? "dark" : "light");
const onTheme = (draw) => [dark, print].forEach((media) => media.addEventListener("change", draw));
const PALETTE = { light: { zero: [255, 255, 255], above: [190, 92, 6], below: [84, 39, 136], most: [8, 81, 156], masked: [222, 222, 222] },
                  dark: { zero: [28, 30, 36], above: [241, 163, 64], below: [165, 150, 220], most: [107, 174, 214], masked: [70, 72, 78] } };

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
  const says = `${low < 0 ? "orange is above 0, purple below; " : ""}the strongest colour is ${said(most)}`;
  return Object.assign(colour, { most, says });
}

// Black or white, whichever is told from the ground more easily: a contrast of at least 4.5 (WCAG 2, relative luminance).
function inkOn(rgb) {
  const [r, g, b] = rgb.map((x) => (x <= 10 ? x / 3294.6 : ((x / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}
const css = (rgb) => `rgb(${rgb.join(",")})`;

// A matrix as pixels, one a number, in 255 shades of each sign, which go with the root of a number's size, so that small ones
// show beside the 1 of a row that has one weight. `masked` (one a number, or null): 1 = there is nothing to show.
function image(context, values, rows, columns, colour, masked = null) {
  const pixels = context.createImageData(columns, rows), data = pixels.data, shades = new Uint8Array(3 * 511), { most } = colour;
  for (let i = -255; i <= 255; i++) shades.set(colour((most * i) / 255), 3 * (i + 255));
  const grey = PALETTE[theme()].masked;
  for (let i = 0; i < rows * columns; i++) {
    const x = values[i] === true ? 0.6 * most : values[i] === false ? 0 : values[i], hidden = masked !== null && masked[i];
    if (!hidden && !finite(x)) continue;
    const from = hidden ? grey : shades, at = hidden ? 0 : 3 * (Math.round(255 * Math.sign(x) * Math.sqrt(Math.min(1, Math.abs(x) / most))) + 255);
    data[4 * i] = from[at];
    data[4 * i + 1] = from[at + 1];
    data[4 * i + 2] = from[at + 2];
    data[4 * i + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
}

// A matrix as a picture for papers and slides: its numbers and names are text. `rows`, `columns`: names, or none. -> SVG
function drawing(title, values, [rows, columns], names, colour, masked) {
  const space = new DOMParser().parseFromString("<svg>", "text/html").body.firstChild.namespaceURI;
  const node = (tag, how, ...children) => {
    const made = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(how)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const small = rows * columns > LARGE, side = Math.max(2, Math.min(8, Math.floor(560 / columns))), [width, height] = small ? [side, side] : [56, 22];
  const short = (all) => (all || []).map((name) => (name.length > 18 ? `${name.slice(0, 17)}…` : name)), left = short(names.rows), above = short(names.columns);
  const long = (all) => 8 * Math.max(0, ...all.map((name) => name.length)), upright = !small && long(above) <= width;
  const x0 = 8 + long(left), y0 = 30 + (upright ? (above.length ? 16 : 0) : long(above)), every = (size) => Math.ceil(12 / size);
  const size = [Math.max(x0 + columns * width + 8, 8 * title.length + 16), y0 + rows * height + 8];
  const found = node("svg", { width: size[0], height: size[1], viewBox: `0 0 ${size.join(" ")}`, "font-family": "monospace", "font-size": 12, fill: "#000000" },
    node("text", { x: 8, y: 18, "font-weight": "bold" }, title));
  left.forEach((name, r) => { if (r % every(height) === 0) found.append(node("text", { x: x0 - 6, y: y0 + (r + 0.5) * height + 4, "text-anchor": "end" }, name)); });
  above.forEach((name, c) => {
    if (c % every(width)) return;
    const x = x0 + (c + 0.5) * width;
    found.append(node("text", upright ? { x, y: y0 - 5, "text-anchor": "middle" } : { transform: `translate(${x + 4} ${y0 - 5}) rotate(-90)` }, name));
  });
  if (small) {
    const pixels = make("canvas", { width: columns, height: rows });
    image(pixels.getContext("2d"), values, rows, columns, colour, masked);
    found.append(node("image", { x: x0, y: y0, width: columns * width, height: rows * height, href: pixels.toDataURL(), style: "image-rendering: pixelated" }));
    return found;
  }
  for (let i = 0; i < rows * columns; i++) {
    const hidden = masked !== null && masked[i] === 1, rgb = hidden ? PALETTE.light.masked : colour(values[i]) || [255, 255, 255];
    const x = x0 + (i % columns) * width, y = y0 + Math.floor(i / columns) * height;
    found.append(node("rect", { x, y, width, height, fill: css(rgb), stroke: "#c4c4c4" }));
    if (!hidden) found.append(node("text", { x: x + width - 5, y: y + 15, "text-anchor": "end", fill: inkOn(rgb) }, said(values[i])));
  }
  return found;
}

// Hands the reader a file.
function handOver(name, type, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Work in small steps, a share of every frame: `frames()` -> a slot, and slot(generator) replaces what it was at. Slots that
// were made first come first. While anything is left to do the page is aria-busy; before it is printed all is done.
const frames = (() => {
  const SHARE = 6, slots = [];                               // milliseconds of a frame's 16; a step may take some more
  let asked = false, working = false;
  function work(until) {
    if (working) return true;                                // a step asks for more: that is done after it
    working = true;
    for (const slot of slots) {
      while (slot.steps && performance.now() < until) if (slot.steps.next().done) slot.steps = null;
    }
    working = false;
    return slots.some((slot) => slot.steps);
  }
  function frame() {
    asked = work(performance.now() + SHARE);
    if (asked) window.requestAnimationFrame(frame); else root.removeAttribute("aria-busy");
  }
  window.addEventListener("beforeprint", () => work(Infinity));
  return () => {
    const slot = { steps: null };
    slots.push(slot);
    return (steps) => {
      slot.steps = steps;
      root.setAttribute("aria-busy", "true");
      if (print.matches) work(Infinity);
      if (!asked) window.requestAnimationFrame(frame);
      asked = true;
    };
  };
})();

function* inTurn(all) { for (const steps of all) yield* steps; }

// Where things stand is known when the browser has laid them out; to ask earlier would make it do so twice.
function laidOut(node, action) {
  const seen = new ResizeObserver(() => { seen.disconnect(); action(); });
  seen.observe(node);
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
// `how`: name, note, onChoose(flat index), onEdit(flat index, number), chosen, linked (Map: flat index -> what is said of it),
// rows, columns (labels), later (nothing is drawn before the first `fill`). `.fill(values, masked)` takes others of the same shape, and returns the steps that draw them, for
// `frames`; what has the focus keeps it.
function heatMap(array, how) {
  const { shape } = array, rows = shape.length > 1 ? shape[shape.length - 2] : 1, columns = shape.length ? shape[shape.length - 1] : 1;
  const size = rows * columns, linked = how.linked || new Map(), chosen = how.chosen ?? null;
  const node = make("div", { class: "array" }), body = make("div", { class: "scroll" });
  let values = array.values, masked = null, colour = colours(values);
  let shown = !size ? 0 : Math.floor((chosen ?? linked.keys().next().value ?? 0) / size);     // which matrix
  let cursor = chosen === null ? 0 : chosen % size;                                           // in the matrix
  let paint;                                                                                  // draws the numbers, in steps
  const matrices = size ? values.length / size : 0, at = () => shown * size + cursor;
  const title = make("h3", {}, make("code", { text: how.name }), ` ${shape.length ? `(${shape.join(", ")})` : "a number"}`, how.note ? " " : null, how.note,
    shape.length && size ? make("button", { type: "button", class: "link file", text: "SVG", "aria-label": `save ${how.name} as SVG`, title: "save as SVG", on: { click: hand } }) : null);

  function hand() {
    const from = shown * size, { rows: left, columns: above } = how;
    onPaper = true;
    const drawn = drawing(`${title.textContent.replace(/SVG$/, "")}${matrices > 1 ? `, [${place(shown, shape.slice(0, -2)).join(", ")}]` : ""}`, values.slice(from, from + size), [rows, columns], { rows: left, columns: above }, colour, masked);
    onPaper = false;
    handOver(`${how.name.replace(/[^\w]+/g, "-")}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(drawn));
  }

  function spoken(i) {
    const names = [how.rows && how.rows[Math.floor((i % size) / columns)], how.columns && how.columns[i % columns]].filter((name) => name);
    const named = `${how.name}${shape.length ? `[${place(i, shape).join(", ")}]` : ""}${names.length ? ` (${names.join(", ")})` : ""}`;
    return `${named} ${masked !== null && masked[i % size] ? "is masked" : `= ${said(values[i], 6)}`}${linked.has(i) ? `; ${linked.get(i)}` : ""}`;
  }

  const rounded = (x) => Math.round(x * 1e6) / 1e6;
  const choose = () => { if (how.onChoose) how.onChoose(at()); };

  // Arrow keys go, Enter chooses; + and - change what can be changed. `go(where)`: where in the matrix.
  function keys(event, go) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    const change = { "+": 0.1, "=": 0.1, "-": -0.1, "−": -0.1, PageUp: 1, PageDown: -1, Delete: -values[at()] }[event.key];
    if (event.key === "Enter" || event.key === " ") choose();
    else if (how.onEdit && change !== undefined) how.onEdit(at(), rounded(values[at()] + change));
    else if (step === undefined) return;
    else if (cursor + step >= 0 && cursor + step < size) go(cursor + step);
    event.preventDefault();
    event.stopPropagation();
  }

  function grid() {
    const from = shown * size, cells = [], painted = [];
    const table = make("table", { class: rows === 1 && !how.columns ? "grid row" : "grid", role: "grid", "aria-label": `${how.name}, ${shape.join(" by ") || "a number"}` });
    const heading = (text, scope) => make("th", { scope, text, title: text });
    if (how.columns) table.append(make("tr", {}, how.rows ? make("th") : null, ...how.columns.map((text) => heading(text, "col"))));
    for (let r = 0; r < rows; r++) {
      const row = make("tr", { role: "row" }, how.rows ? heading(how.rows[r], "row") : null);
      for (let c = 0; c < columns; c++) {
        const i = from + cells.length, kind = i === chosen ? "chosen" : linked.has(i) ? "linked" : how.onEdit ? "edited" : null;
        cells.push(make("td", { role: "gridcell", tabindex: cells.length === cursor ? 0 : -1, class: kind, "aria-selected": i === chosen ? "true" : null }));
      }
      row.append(...cells.slice(-columns));
      table.append(row);
    }
    const cellOf = (event) => cells.indexOf(event.target.closest("td"));
    table.addEventListener("click", (event) => { if (cellOf(event) >= 0) { cursor = cellOf(event); choose(); } });
    table.addEventListener("mouseover", (event) => { const i = cellOf(event); if (i >= 0) cells[i].title = spoken(from + i); });
    table.addEventListener("focusin", (event) => {
      const i = cellOf(event);
      if (i < 0) return;
      cells[cursor].tabIndex = -1;
      cursor = i;
      cells[cursor].tabIndex = 0;
    });
    table.addEventListener("keydown", (event) => keys(event, (i) => cells[i].focus()));
    if (how.onEdit) table.addEventListener("pointerdown", (event) => { if (cellOf(event) >= 0) drag(event, cells[cellOf(event)], from + cellOf(event)); });
    paint = function* () {
      for (let i = 0; i < size; i++) {
        const cell = cells[i], value = values[from + i], hidden = masked !== null && masked[i] === 1;
        const rgb = hidden ? null : colour(value), text = `${value} ${hidden} ${rgb}`;
        if (painted[i] === text) continue;
        painted[i] = text;
        cell.textContent = hidden ? "" : said(value);
        cell.setAttribute("aria-label", spoken(from + i));
        cell.dataset.value = String(value);
        cell.style.cssText = rgb ? `background: ${css(rgb)}; color: ${inkOn(rgb)}` : "";
        cell.classList.toggle("masked", hidden);
        yield;
      }
    };
    return table;
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

  function picture() {
    const from = shown * size, side = Math.max(2, Math.min(8, Math.floor(560 / columns)));
    const canvas = make("canvas", { width: columns * side, height: rows * side, tabindex: 0, role: "img" });
    const pixels = make("canvas", { width: columns, height: rows });
    const label = make("p", { class: "number", "aria-live": "polite" }), legend = make("p", { class: "faint" });
    const context = canvas.getContext("2d");
    const box = (i) => context.strokeRect((i % columns) * side + 0.5, Math.floor(i / columns) * side + 0.5, side - 1, side - 1);
    const here = (i) => i >= from && i < from + size;
    function point(i) {
      cursor = i;
      label.textContent = spoken(at());
      canvas.setAttribute("aria-label", `${how.name}, ${shape.join(" by ")}: ${spoken(at())}`);
    }
    const under = (event) => {
      const frame = canvas.getBoundingClientRect(), within = (x, most) => Math.max(0, Math.min(most - 1, Math.floor(x * most)));
      return within((event.clientY - frame.top) / frame.height, rows) * columns + within((event.clientX - frame.left) / frame.width, columns);
    };
    canvas.addEventListener("mousemove", (event) => point(under(event)));
    canvas.addEventListener("click", (event) => { point(under(event)); choose(); });
    canvas.addEventListener("keydown", (event) => keys(event, point));
    paint = function* () {
      image(pixels.getContext("2d"), values.slice(from, from + size), rows, columns, colour, masked);
      yield;
      context.imageSmoothingEnabled = false;
      context.clearRect(0, 0, canvas.width, canvas.height);
      context.drawImage(pixels, 0, 0, canvas.width, canvas.height);
      context.strokeStyle = theme() === "dark" ? "#7cc4ff" : "#0058a3";
      for (const i of linked.keys()) if (here(i)) box(i - from);
      context.strokeStyle = theme() === "dark" ? "#ffffff" : "#000000";
      if (chosen !== null && here(chosen)) box(chosen - from);
      legend.textContent = `${colour.says}, and colour goes with the root of the size${masked === null ? "" : "; grey is masked"}`;
      point(cursor);
    };
    return make("div", {}, canvas, label, legend);
  }

  function draw() {
    paint = function* () {};                                 // there may be nothing to draw
    body.replaceChildren(!values.length ? make("p", { class: "faint", text: "no numbers" }) : size > LARGE ? picture() : grid());
  }
  const finish = (steps) => { while (!steps.next().done); };
  node.fill = (others, hidden = null) => {
    values = others;
    masked = hidden;
    colour = colours(values);
    return paint();
  };

  node.append(title);
  if (matrices > 1) {
    const select = make("select", { "aria-label": `which matrix of ${how.name}`, on: { change: () => { shown = Number(select.value); draw(); finish(paint()); } } });
    for (let i = 0; i < matrices; i++) select.append(make("option", { value: i, text: `[${place(i, shape.slice(0, -2)).join(", ")}]`, selected: i === shown }));
    node.append(select);
  }
  node.append(body);
  draw();
  if (!how.later) finish(paint());
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
    const line = pre.querySelector(`.${kind}`);
    if (line) laidOut(pre, () => { pre.scrollTop = line.offsetTop - pre.offsetTop - 0.4 * pre.clientHeight; });
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
  const fresh = () => ({ q: data.q, k: data.k, v: data.v, dout: data.dout, mask: data.mask, scale: data.scale, heads: data.heads });
  const now = { n, m: n, D, E, ...fresh() };
  const has = (part) => !data.hide.includes(part);
  const natural = () => 1 / Math.sqrt(D / now.heads);
  const causal = (i, j) => j <= i;
  const masks = { nothing: () => true, "what comes later": causal, "itself": (i, j) => i !== j };
  const verdict = make("p", { role: "status" });
  const code = make("textarea", { rows: 8, readonly: true, "aria-label": "these numbers, as Python", class: "number" });
  const scale = make("input", { type: "range", min: Math.min(0, data.scale), max: Math.max(3, data.scale), step: 0.01, "aria-label": "scale", on: { input: () => set({ scale: Number(scale.value) }) } });
  const scaleSaid = make("span", { class: "number" });
  const heads = make("select", { "aria-label": "heads", on: { change: () => set({ heads: Number(heads.value) }, true) } });
  for (let h = 1; h <= D; h++) if (D % h === 0 && E % h === 0) heads.append(make("option", { value: h, text: h, selected: h === now.heads }));
  const hides = make("select", { "aria-label": "the mask hides", on: { change: () => set({ mask: now.mask.map((_, i) => masks[hides.value](Math.floor(i / n), i % n)) }) } },
    ...Object.keys(masks).map((text) => make("option", { value: text, text })), make("option", { value: "", text: "as chosen below", disabled: true }));
  const hidden = () => Object.keys(masks).find((key) => now.mask.every((x, i) => x === masks[key](Math.floor(i / n), i % n))) || "";
  const button = (text, action) => make("button", { type: "button", text, on: { click: action } });
  const controls = make("div", { class: "controls", role: "group", "aria-label": "settings" },
    ...(has("scale") ? [make("label", {}, "scale ", scale), scaleSaid, button("1 / √d", () => set({ scale: natural() }))] : []),
    has("heads") ? make("label", {}, "heads ", heads) : null, has("mask") ? make("label", {}, "the mask hides ", hides) : null,
    button("Start again", () => { heads.value = data.heads; set(fresh(), true); }));
  const body = make("div");
  root.replaceChildren(make("h1", { text: data.title }), make("p", { class: "faint",
    text: `Drag a number of q, k${has("backward") ? ", v or dout" : " or v"} up or down, or press + and −; the rest follows.${has("mask") ? " A click on the mask lets a token look, or not." : ""}` }),
    goal ? make("p", {}, make("strong", { text: goal.says })) : "", verdict, controls, body, make("details", {}, make("summary", { text: "These numbers, as Python" }), code));
  const parts = frames(), refill = frames();
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
    const edit = (name) => (maps[name] = heatMap({ shape: [n, width[name]], values: now[name] }, { later: true, name, rows: tokens, columns: labels(name),
      onEdit: (i, x) => set({ [name]: now[name].with(i, x) }) }));
    const map = (name, said) => (maps[name] = heatMap({ shape: name in width ? [n, width[name]] : square, values: found[name] },
      { later: true, name: said || name, rows: tokens, columns: name in width ? labels(name) : tokens }));
    const mask = () => (maps.mask = heatMap({ shape: [n, n], values: now.mask }, { later: true, name: "mask", rows: tokens, columns: tokens,
      onChoose: (i) => set({ mask: now.mask.with(i, !now.mask[i]) }) }));
    const scores = `${has("scale") ? "scale · " : ""}q kᵀ${has("scale") ? "" : " / √d"}${has("mask") ? ", masked" : ""}`;
    body.replaceChildren();
    parts((function* () {
      const add = (...of) => body.append(section(...of));
      add("What goes in", edit("q"), edit("k"), edit("v"), has("mask") ? mask() : null);
      yield;
      add("Scores, then weights", map("raw", "q kᵀ"), map("scores", scores), map("weights"));
      yield;
      add("What comes out", map("out"));
      yield;
      if (has("backward")) add("Backward: from the gradient of the output", edit("dout"), map("dq"), map("dk"), map("dv"));
      show();
    })());
  }

  function show() {
    const found = attend(now);
    refill(inTurn(Object.entries(maps).map(([name, map]) => map.fill(found[name] || now[name]))));
    hides.value = hidden();
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

// One layer's attention of one sequence, as the library gave it: scores, weights and gradients are made of it on demand, a row
// at a time, by generators, so that no frame waits for a whole matrix.
class LayerSeen {
  constructor(data) {
    Object.assign(this, { heads: data.heads, n: data.n, m: data.m, d: data.d, scale: data.scale, fromScores: data.weights === null });
    this.data = data;
    this.made = new Map();
  }
  // What is made once, when it is first asked for.
  once(name, make) { if (!this.made.has(name)) this.made.set(name, make()); return this.made.get(name); }
  // What is made once, in steps: who asks goes on where another stopped.
  *keep(name, make) {
    const one = this.once(name, () => ({ steps: make(), value: null }));
    while (one.steps) {
      const { done, value } = one.steps.next();
      if (done) Object.assign(one, { steps: null, value }); else yield;
    }
    return one.value;
  }
  // q, k, v, bias, weights, relative: (heads, tokens, numbers) one after the other, or null.
  array(name) { return this.once(name, () => (this.data[name] === null ? null : floats(this.data[name]))); }
  gradient(output) { return this.once(`gradient ${output}`, () => floats(this.data.gradients[output])); }
  // (n m): 1 = this query may not look at that key.
  masked(head) {
    return this.once(`masked ${head}`, () => {
      const { n, m } = this, found = new Uint8Array(n * m), from = this.data.by_head ? Math.max(0, head) * n * m : 0;
      const packed = this.once("bits", () => bytes(this.data.allowed));
      for (let i = 0; i < n * m; i++) found[i] = 1 - ((packed[(from + i) >> 3] >> ((from + i) & 7)) & 1);
      return found;
    });
  }
  // a_i · b_j in a head, of arrays (heads, tokens, d).
  dot(a, i, b, j) {
    const { d } = this;
    let sum = 0;
    for (let c = 0, from = i * d, to = j * d; c < d; c++) sum += a[from + c] * b[to + c];
    return sum;
  }
  // The stages from a score to a weight, of query i and key j.
  stages(head, i, j) {
    const raw = this.dot(this.array("q"), head * this.n + i, this.array("k"), head * this.m + j), scaled = this.scale * raw;
    const bias = this.array("bias") && this.array("bias")[(head * this.n + i) * this.m + j];
    return { raw, scaled, bias, score: this.masked(head)[i * this.m + j] ? -Infinity : scaled + (bias || 0) };
  }
  // (n m) weights of a head; head -1: the mean over heads.
  weightsOf(head) {
    return this.keep(`weights ${head}`, head < 0 ? () => this.total((h) => this.weightsOf(h), 1 / this.heads) : () => this.weightsOfOne(head));
  }
  *weightsOfOne(head) {
    const { n, m } = this, found = new Float32Array(n * m);
    if (!this.fromScores) return this.array("weights").subarray(head * n * m, (head + 1) * n * m);
    const q = this.array("q"), k = this.array("k"), bias = this.array("bias"), masked = this.masked(head), row = new Float64Array(m);
    for (let i = 0; i < n; i++) {
      let most = -Infinity, sum = 0;
      for (let j = 0; j < m; j++) {
        row[j] = masked[i * m + j] ? -Infinity : this.scale * this.dot(q, head * n + i, k, head * m + j) + (bias === null ? 0 : bias[(head * n + i) * m + j]);
        if (row[j] > most) most = row[j];
      }
      for (let j = 0; j < m; j++) sum += row[j] = most === -Infinity ? 0 : Math.exp(row[j] - most);
      for (let j = 0; j < m; j++) found[i * m + j] = sum ? row[j] / sum : 0;
      yield;
    }
    return found;
  }
  // (n m): the gradient of an output by each weight. out = weights v, and where a scheme has values of distances, out_i also
  // has Σ_j weights_ij a_r, r = clip(j - i, -K, K) + K; so dweights = dout vᵀ, and dout_i · a_r. head -1: summed over heads.
  gradientOf(output, head) {
    return this.keep(`by weight ${output} ${head}`, head < 0 ? () => this.total((h) => this.gradientOf(output, h), 1) : () => this.gradientOfOne(output, head));
  }
  *gradientOfOne(output, head) {
    const { n, m } = this, found = new Float32Array(n * m), dout = this.gradient(output), v = this.array("v");
    const masked = this.masked(head), a = this.array("relative"), K = a && (a.length / this.d - 1) / 2;
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < m; j++) {
        if (masked[i * m + j]) continue;
        found[i * m + j] = this.dot(dout, head * n + i, v, head * m + j) + (a === null ? 0 : this.dot(dout, head * n + i, a, Math.max(-K, Math.min(K, j - i)) + K));
      }
      yield;
    }
    return found;
  }
  // (n m): that gradient times the weight, what to first order is lost if the weight were 0. head -1: summed over heads.
  *productOf(output, head) {
    if (head < 0) return yield* this.total((h) => this.productOf(output, h), 1);
    const weights = yield* this.weightsOf(head);
    return (yield* this.gradientOf(output, head)).map((x, i) => x * weights[i]);
  }
  *total(of, share) {
    const found = new Float32Array(this.n * this.m);
    for (let h = 0; h < this.heads; h++) {
      const one = yield* of(h);
      for (let i = 0; i < found.length; i++) found[i] += share * one[i];
      yield;
    }
    return found;
  }
}

// (n n): roll-out up to a layer. What lies right of a row's last number is 0, and is not multiplied.
function rollout(layers, upto) {
  return layers[upto].keep("rollout", function* () {
    const weights = yield* layers[upto].weightsOf(-1), { n } = layers[upto], now = weights.map((w, at) => (w + (at % (n + 1) === 0 ? 1 : 0)) / 2);
    if (upto === 0) return now;
    const below = yield* rollout(layers, upto - 1), product = new Float32Array(n * n), ends = [];
    for (let j = 0; j < n; j++) for (ends[j] = n; ends[j] && !below[j * n + ends[j] - 1];) ends[j]--;
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) {
        const share = now[i * n + j];
        if (share) for (let c = 0; c < ends[j]; c++) product[i * n + c] += share * below[j * n + c];
      }
      yield;
    }
    return product;
  });
}

const LENSES = {
  weights: ["attention weights", "Each row sums to 1. A weight says what was taken, not what mattered: the output may not depend on it."],
  rollout: ["roll-out up to this layer", "Products of (mean weights + 1) / 2, layer by layer (Abnar & Zuidema 2020): where tokens could have come from. It leaves out values, feed-forward networks and norms."],
  gradient: ["gradient by each weight", "How fast the chosen output changes with a weight, all else held. A weight cannot change alone: its row sums to 1."],
  product: ["gradient times weight", "To first order, what the chosen output would lose if the weight were 0. It sees no interactions."],
};

function visualiser(data, root) {
  const runs = data.runs.map((run) => ({ ...run, layers: run.layers.map((layer) => new LayerSeen(layer)) }));
  const tokens = runs[0].tokens, n = tokens.length;
  const state = { token: runs[0].last, other: null, layer: 0, head: 0, lens: "weights", output: 0 };
  const select = (label, key, options) => make("select", { "aria-label": label, on: { change: (event) => choose({ [key]: key === "lens" ? event.target.value : Number(event.target.value) }) } },
    ...options.map(([value, text]) => make("option", { value, text })));
  const most = Math.max(...runs.map((run) => run.layers.length)), heads = Math.max(...runs.flatMap((run) => run.layers.map((layer) => layer.heads)));
  const controls = {
    lens: select("view", "lens", Object.entries(LENSES).map(([key, [text]]) => [key, text])),
    layer: select("layer", "layer", Array.from({ length: most }, (_, i) => [i, `layer ${i + 1}`])),
    head: select("head", "head", [...Array.from({ length: heads }, (_, i) => [i, `head ${i + 1}`]), [-1, "all heads"]]),
    output: select("output", "output", runs[0].outputs.map((one, i) => [i, one.says])),
  };
  const note = make("p", { class: "faint" }), body = make("div", { class: runs.length > 1 ? "beside" : null });
  const strip = make("div", { class: "tokens", role: "group", "aria-label": "tokens: choose the one that looks" });
  const buttons = tokens.map((text) => make("button", { type: "button", text: text || " ", title: text }));
  for (const event of ["click", "mouseover", "focusin"]) {
    strip.addEventListener(event, ({ target }) => { if (buttons.includes(target)) choose({ token: buttons.indexOf(target) }); });
  }
  strip.append(...buttons);
  root.replaceChildren(make("h1", { text: data.title }), data.note ? make("p", { text: data.note }) : "",
    make("div", { class: "controls", role: "group", "aria-label": "what is shown" }, controls.lens, controls.layer, controls.head, make("label", {}, "of ", controls.output)),
    note, make("section", { class: "panel", "aria-label": "tokens" }, make("h2", { text: "Who looks" }), strip), body);

  const backward = () => state.lens === "gradient" || state.lens === "product";
  const of = (run) => run.layers[Math.min(state.layer, run.layers.length - 1)];
  const headOf = (layer) => Math.min(state.head, layer.heads - 1);

  // What is looked at, (n n), in steps.
  function matrix(run, layer, head) {
    if (state.lens === "weights") return layer.weightsOf(head);
    if (state.lens === "rollout") return rollout(run.layers, run.layers.indexOf(layer));
    return state.lens === "product" ? layer.productOf(state.output, head) : layer.gradientOf(state.output, head);
  }
  // What of it is masked: roll-out has no mask of its own, nor have all heads together, where theirs differ.
  const maskOf = (layer, head) => (state.lens === "rollout" || (head < 0 && layer.data.by_head) ? null : layer.masked(head));

  // Draws what a change of the state has to do with; all of it, at first and in other colours.
  function choose(changes) {
    const names = Object.keys(changes).filter((name) => changes[name] !== state[name]);
    if (!names.length) return;
    buttons[state.token].removeAttribute("aria-current");
    Object.assign(state, changes);
    draw((...asked) => asked.some((name) => names.includes(name)));
  }
  function draw(changed) {
    note.textContent = LENSES[state.lens][1];
    for (const [name, control] of Object.entries(controls)) control.value = state[name];
    controls.output.disabled = !backward();
    buttons[state.token].setAttribute("aria-current", "true");
    for (const part of parts) part(changed);
  }

  // Parts of every run; those of one kind follow each other, so that two runs are drawn together.
  const boxes = runs.map((run) => make("div", {}, runs.length > 1 ? make("h2", { text: run.title }) : null));
  const PARTS = { "what it looks at": looking, "all tokens": mapping, "layers and heads": small, "from scores to weights": stepping, inputs,
    "is it an explanation?": shuffled };
  const parts = Object.entries(PARTS).flatMap(([name, part]) => runs.map((run, r) => {
    const box = make("section", { class: "panel", "aria-label": name });
    boxes[r].append(box);
    return part(run, box);
  }));
  body.replaceChildren(...boxes);

  // What the chosen token looks at, token by token: elements that are made once and filled anew.
  function looking(run, box) {
    const heading = make("h2"), total = make("p", { class: "number", "aria-live": "polite" }), list = make("div", { class: "tokens", role: "list" });
    const items = tokens.map((text) => make("span", { role: "listitem" }, text || " ", make("small"))), slot = frames();
    list.append(...items);
    box.append(heading, list, total);
    function* draw() {
      const layer = of(run), head = headOf(layer), values = yield* matrix(run, layer, head);
      const row = values.subarray(state.token * n, (state.token + 1) * n), colour = colours(row), masked = maskOf(layer, head);
      const most = [...row.keys()].sort((a, b) => Math.abs(row[b]) - Math.abs(row[a])).slice(0, 3).filter((j) => row[j] !== 0);
      heading.replaceChildren("What ", make("code", { text: tokens[state.token] }), ` ${backward() ? "would pass on" : "looks at"}, ${headed(run, layer, head)}`);
      total.textContent = `${backward() ? "sum" : "the weights sum to"} ${said(row.reduce((a, b) => a + b, 0), 4)}; most: ${most.map((j) => `${tokens[j]} ${said(row[j])}`).join(", ") || "nothing"}`;
      list.setAttribute("aria-label", `what ${tokens[state.token]} looks at`);
      for (let j = 0; j < n; j++) {
        const item = items[j], hidden = masked !== null && masked[state.token * n + j] === 1, rgb = hidden ? null : colour(row[j]);
        item.lastChild.textContent = hidden ? "masked" : said(row[j], 2);
        item.setAttribute("aria-label", `${tokens[j]}, ${hidden ? "masked" : said(row[j])}`);
        item.dataset.value = String(row[j]);
        item.classList.toggle("masked", hidden);
        item.style.cssText = rgb ? `background: ${css(rgb)}; color: ${inkOn(rgb)}` : "";
        yield;
      }
    }
    return (changed) => { if (changed("token", "lens", "layer", "head", "output")) slot(draw()); };
  }

  const headed = (run, layer, head) => `layer ${run.layers.indexOf(layer) + 1}, ${head < 0 ? "all heads" : `head ${head + 1}`}`;

  function mapping(run, box) {
    const slot = frames(), note = make("span", { class: "faint" });
    let map = null, lens = null;
    function* draw() {
      const layer = of(run), head = headOf(layer), values = yield* matrix(run, layer, head);
      if (lens !== state.lens) {
        lens = state.lens;
        map = heatMap({ shape: [n, n], values }, { name: LENSES[state.lens][0], rows: tokens, columns: tokens, note, later: true,
          onChoose: (i) => choose({ token: Math.floor(i / n), other: i % n }) });
        box.replaceChildren(make("h2", { text: "All tokens: rows look at columns" }), map, make("p", { class: "faint", text: run.mask }));
      }
      note.textContent = headed(run, layer, head);
      yield* map.fill(values, maskOf(layer, head));
    }
    return (changed) => { if (changed("lens", "layer", "head", "output")) slot(draw()); };
  }

  // Every layer and head, small.
  function small(run, box) {
    const table = make("table", { class: "small" }), all = [], slot = frames();
    run.layers.forEach((layer, l) => {
      const line = make("tr", {}, make("th", { scope: "row", text: `layer ${l + 1}` }));
      for (let head = 0; head < layer.heads; head++) {
        const canvas = make("canvas", { width: n, height: n, "aria-hidden": "true" });
        const pick = make("button", { type: "button", "aria-label": `layer ${l + 1}, head ${head + 1}`, on: { click: () => choose({ layer: l, head }) } }, canvas);
        line.append(make("td", {}, pick));
        all.push({ layer, head, canvas, pick });
      }
      table.append(line);
    });
    box.append(make("h2", { text: "Layers and heads" }), make("div", { class: "scroll" }, table));
    function* draw() {
      for (const { layer, head, canvas } of all) {
        const values = yield* matrix(run, layer, head);
        image(canvas.getContext("2d"), values, n, n, colours(values), maskOf(layer, head));
        yield;
      }
    }
    return (changed) => {
      if (changed("layer", "head")) for (const { layer, head, pick } of all) pick.setAttribute("aria-pressed", String(layer === of(run) && head === headOf(layer)));
      if (changed("lens", "output")) slot(draw());
    };
  }

  // From a score to a weight, for every key of the chosen query; the vectors of one of them. Arrow keys choose which.
  // Rows are made once for what stands in the columns, and filled anew.
  function stepping(run, box) {
    const heading = make("h2"), other = make("p", { class: "faint", text: "This mechanism makes its weights in another way; queries and keys are those that it was given." });
    const scroll = make("div", { class: "scroll", role: "group", tabindex: 0 }), vectors = make("div"), slot = frames(), { d } = run.layers[0];
    const vector = Object.fromEntries(["q", "k", "v"].map((name) => {
      const whose = make("span");
      return [name, { whose, map: heatMap({ shape: [d], values: new Float32Array(d) }, { name, note: whose, later: true }) }];
    }));
    let columns = "", lines = [], now = 0;
    vectors.append(...Object.values(vector).map(({ map }) => map));
    box.append(heading, other, scroll, vectors);
    scroll.addEventListener("keydown", (event) => {
      const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      choose({ other: Math.max(0, Math.min(n - 1, (state.other ?? state.token) + by)) });
      lines[state.other]?.scrollIntoView({ block: "nearest" });
    });
    scroll.addEventListener("click", (event) => {
      const key = lines.indexOf(event.target.closest("tr"));
      if (key >= 0) choose({ other: key });
    });
    function point(key) {
      if (lines[now]) { lines[now].removeAttribute("class"); lines[now].removeAttribute("aria-current"); }
      now = key;
      lines[key].className = "now";
      lines[key].setAttribute("aria-current", "true");
      scroll.setAttribute("aria-label", `steps from scores to weights; up and down choose a key: ${tokens[key]}`);
    }
    function* draw() {
      const layer = of(run), head = Math.max(0, headOf(layer)), i = state.token, j = state.other ?? i;
      const bias = layer.array("bias") !== null, names = ["token", "q·k", `× ${said(layer.scale)}`, ...(bias ? ["+ bias"] : []), "masked", "weight"];
      if (backward()) names.push("gradient", "× weight");
      heading.replaceChildren("From scores to weights: ", make("code", { text: tokens[i] }), `, head ${head + 1}`);
      other.hidden = layer.fromScores;
      if (names.join() !== columns) {
        columns = names.join();
        lines = tokens.map((text) => make("tr", {}, make("th", { scope: "row", text, title: text }), ...names.slice(1).map(() => make("td"))));
        scroll.replaceChildren(make("table", { class: "steps" }, make("tr", {}, ...names.map((text) => make("th", { scope: "col", text }))), ...lines));
      }
      point(j);
      for (const [name, key] of [["q", i], ["k", j], ["v", j]]) {
        const from = (head * n + key) * d;
        vector[name].whose.textContent = `of ${tokens[key]}`;
        yield* vector[name].map.fill(layer.array(name).subarray(from, from + d));
      }
      const weights = yield* layer.weightsOf(head), gradient = backward() ? yield* layer.gradientOf(state.output, head) : null;
      for (let key = 0; key < n; key++) {
        const s = layer.stages(head, i, key), at = i * n + key;
        const cells = [s.raw, s.scaled, ...(bias ? [s.bias] : []), layer.fromScores ? s.score : null, weights[at], ...(gradient ? [gradient[at], gradient[at] * weights[at]] : [])];
        cells.forEach((x, c) => {
          lines[key].children[c + 1].textContent = x === null ? "" : said(x);
          lines[key].children[c + 1].dataset.value = String(x);
        });
        yield;
      }
    }
    return (changed) => { if (changed("token", "other", "lens", "layer", "head", "output")) slot(draw()); };
  }

  // What each input token does to the chosen output.
  function inputs(run, box) {
    const title = make("h2"), slot = frames(), values = run.inputs.map(floats);
    const map = heatMap({ shape: [1, n], values: values[0] }, { name: "input", columns: tokens, later: true });
    box.append(title, make("p", { class: "faint", text: "To first order, what the output would lose if what goes into the first block for a token were 0." }), map);
    return (changed) => {
      box.hidden = !backward();
      if (box.hidden || !changed("lens", "output")) return;
      title.textContent = `Gradient times input: ${run.outputs[state.output].says}`;
      slot(map.fill(values[state.output]));
    };
  }

  function shuffled(run, box) {
    const lines = run.shuffled.map((one, l) => make("tr", {}, make("td", { text: `layer ${l + 1}` }), make("td", { text: said(one.moved) }), make("td", { text: said(one.spread) })));
    box.append(make("h2", { text: "Is attention an explanation here?" }),
      make("p", { text: "The last token's weights are dealt out to other tokens, in each head at random, in one layer at a time. If the best score hardly moves, beside the spread of all scores, those weights do not explain it." }),
      make("div", { class: "scroll" }, make("table", { class: "steps" }, make("tr", {}, ...["", "the best score moves by", "spread of all scores"].map((text) => make("th", { scope: "col", text }))), ...lines)));
    return () => {};
  }

  const all = () => true;
  onTheme(() => draw(all));
  draw(all);
}

// After this script, in frames of their own: the data, then the page.
const VIEWS = { player, bench, visualiser }, opening = frames();
opening((function* () {
  const data = JSON.parse(document.getElementById("data").textContent);
  yield;
  VIEWS[root.dataset.kind](data, root);
})());
})();
