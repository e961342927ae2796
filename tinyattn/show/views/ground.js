// The page contains the data as JSON. Scripts show it as text, never as markup, and fetch nothing.
const root = document.getElementById("view");

// After the script, in two later frames: parse the data, then draw the page by view(data, root).
function open(view) {
  frames()((function* () {
    const data = JSON.parse(document.getElementById("data").textContent);
    yield;
    view(data, root);
  })());
}

// ---- For all views: elements, numbers, colours

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

// A number as text, with three digits or `digits`, and a typographic minus sign.
function said(x, digits = 3) {
  if (typeof x === "boolean") return x ? "T" : "F";
  if (!finite(x)) return { inf: "∞", "-inf": "−∞", Infinity: "∞", "-Infinity": "−∞" }[x] || String(x);
  const size = Math.abs(x);
  let text = Number.isInteger(x) && size < 1e6 ? String(x)
    : size !== 0 && (size < 1e-3 || size >= 1e5) ? x.toExponential(digits - 2) : String(Number(x.toPrecision(digits)));
  return text.replace(/^-/, "−");
}

const dark = window.matchMedia("(prefers-color-scheme: dark)"), print = window.matchMedia("print");
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
let onPaper = false;                                         // files are drawn in light colours
const theme = () => (dark.matches && !print.matches && !onPaper ? "dark" : "light");
const onTheme = (draw) => [dark, print].forEach((media) => media.addEventListener("change", draw));
const PALETTE = { light: { zero: [255, 255, 255], above: [190, 92, 6], below: [84, 39, 136], most: [8, 81, 156], masked: [222, 222, 222] },
                  dark: { zero: [28, 30, 36], above: [241, 163, 64], below: [165, 150, 220], most: [107, 174, 214], masked: [70, 72, 78] } };

// -> a function from a number to its colour: white (in dark mode black) at 0, a hue for each sign; one hue if no number is negative.
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

// Black or white, whichever has more contrast with the background: at least 4.5 (WCAG 2, relative luminance).
function inkOn(rgb) {
  const [r, g, b] = rgb.map((x) => (x <= 10 ? x / 3294.6 : ((x / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}
const css = (rgb) => `rgb(${rgb.join(",")})`;

// Draw a matrix, a pixel for each number, in 255 shades for each sign. Shades are proportional to the root of a number's size, so that
// small weights are visible beside a weight of 1. `masked` is null, or has a 1 for each number that is masked.
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

// -> a function that makes elements of SVG or MathML. The parser knows their namespace, so the page need not contain its address.
function elements(markup) {
  const space = new DOMParser().parseFromString(markup, "text/html").body.firstChild.namespaceURI;
  return (tag, how, ...children) => {
    const made = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(how)) if (value !== null) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
}
const vector = elements("<svg>");

// A matrix as a picture for papers and slides, in which numbers and names are text. `names` may have names of rows and columns. -> SVG
function drawing(title, values, [rows, columns], names, colour, masked) {
  const small = rows * columns > LARGE, side = Math.max(2, Math.min(8, Math.floor(560 / columns))), [width, height] = small ? [side, side] : [56, 22];
  const short = (all) => (all || []).map((name) => (name.length > 18 ? `${name.slice(0, 17)}…` : name)), left = short(names.rows), above = short(names.columns);
  const long = (all) => 8 * Math.max(0, ...all.map((name) => name.length)), upright = !small && long(above) <= width;
  const x0 = 8 + long(left), y0 = 30 + (upright ? (above.length ? 16 : 0) : long(above)), every = (size) => Math.ceil(12 / size);
  const size = [Math.max(x0 + columns * width + 8, 8 * title.length + 16), y0 + rows * height + 8];
  const found = vector("svg", { width: size[0], height: size[1], viewBox: `0 0 ${size.join(" ")}`, "font-family": "monospace", "font-size": 12, fill: "#000000" },
    vector("text", { x: 8, y: 18, "font-weight": "bold" }, title));
  left.forEach((name, r) => { if (r % every(height) === 0) found.append(vector("text", { x: x0 - 6, y: y0 + (r + 0.5) * height + 4, "text-anchor": "end" }, name)); });
  above.forEach((name, c) => {
    if (c % every(width)) return;
    const x = x0 + (c + 0.5) * width;
    found.append(vector("text", upright ? { x, y: y0 - 5, "text-anchor": "middle" } : { transform: `translate(${x + 4} ${y0 - 5}) rotate(-90)` }, name));
  });
  if (small) {
    const pixels = make("canvas", { width: columns, height: rows });
    image(pixels.getContext("2d"), values, rows, columns, colour, masked);
    found.append(vector("image", { x: x0, y: y0, width: columns * width, height: rows * height, href: pixels.toDataURL(), style: "image-rendering: pixelated" }));
    return found;
  }
  for (let i = 0; i < rows * columns; i++) {
    const hidden = masked !== null && masked[i] === 1, rgb = hidden ? PALETTE.light.masked : colour(values[i]) || [255, 255, 255];
    const x = x0 + (i % columns) * width, y = y0 + Math.floor(i / columns) * height;
    found.append(vector("rect", { x, y, width, height, fill: css(rgb), stroke: "#c4c4c4" }));
    if (!hidden) found.append(vector("text", { x: x + width - 5, y: y + 15, "text-anchor": "end", fill: inkOn(rgb) }, said(values[i])));
  }
  return found;
}

// Offer a file for download.
function handOver(name, type, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Work in small steps, in a share of every frame. `frames()` makes a slot, and slot(generator) replaces the work in it. Older slots
// come first. While work is left, the page is aria-busy. Before the page is printed, all work is done.
const frames = (() => {
  const SHARE = 6, slots = [];                               // milliseconds of a frame's 16; the last step may exceed them
  let asked = false, working = false;
  function work(until) {
    if (working) return true;                                // a step has added work: that is done after the step
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

// Act once the browser has laid out the node. To read positions before would make it compute the layout twice.
function laidOut(node, action) {
  const seen = new ResizeObserver(() => { seen.disconnect(); action(); });
  seen.observe(node);
}

// Act whenever the node's width has changed.
function onWidth(node, action) {
  let width = 0;
  new ResizeObserver(() => { if (node.clientWidth !== width) { width = node.clientWidth; action(); } }).observe(node);
}

// The indices along all axes for a flat index, as NumPy's unravel_index: [1, 0, 2].
function place(index, shape) {
  const found = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    found.unshift(index % shape[axis]);
    index = Math.floor(index / shape[axis]);
  }
  return found;
}

// One tab stop for many nodes, `across` of them in a row: arrow keys go from node to node, Page Up and Page Down by ten.
// -> a function that makes node i the stop.
function roving(box, nodes, across = 1) {
  let now = 0;
  const stop = (i) => { nodes[now].tabIndex = -1; nodes[i].tabIndex = 0; now = i; };
  for (const node of nodes) node.tabIndex = -1;
  stop(0);
  box.addEventListener("focusin", ({ target }) => { if (nodes.includes(target)) stop(nodes.indexOf(target)); });
  box.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    nodes[Math.max(0, Math.min(nodes.length - 1, now + by))].focus();
  });
  return stop;
}

const LARGE = 900;      // numbers: more are drawn as a picture, without their digits

// An array as a grid of numbers, or as a picture if it is large. If it has more than two axes, one matrix is shown, and others can be selected.
// `how`: name, note, onChoose(flat index), onPoint(flat index), onEdit(flat index, number), chosen, linked (Map: flat index -> a text
// about it), rows, columns (labels), later (nothing is drawn before the first `fill`). node.mark(has) marks the numbers with a true
// has(flat index) instead of the linked ones. node.fill(values, masked) sets other values of the same shape, and returns the steps that draw
// them, for `frames`; the focus does not move.
function heatMap(array, how) {
  const { shape } = array, rows = shape.length > 1 ? shape[shape.length - 2] : 1, columns = shape.length ? shape[shape.length - 1] : 1;
  const size = rows * columns, linked = how.linked || new Map(), chosen = how.chosen ?? null;
  const node = make("div", { class: "array" }), body = make("div", { class: "scroll" });
  let values = array.values, masked = null, colour = colours(values);
  let shown = !size ? 0 : Math.floor((chosen ?? linked.keys().next().value ?? 0) / size);     // which matrix
  let cursor = chosen === null ? 0 : chosen % size;                                           // in the matrix
  let paint;                                                                                  // draws the numbers, in steps
  node.mark = () => {};
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

  // Arrow keys move, Enter chooses, + and - change a number that can be edited. go(i) moves to index i of the matrix.
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
    if (how.columns) table.append(make("tr", {}, how.rows ? make("th", { role: "cell" }) : null, ...how.columns.map((text) => heading(text, "col"))));
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
    table.addEventListener("mouseover", (event) => {
      const i = cellOf(event);
      if (i < 0) return;
      cells[i].title = spoken(from + i);
      if (how.onPoint) how.onPoint(from + i);
    });
    node.mark = (has) => cells.forEach((cell, i) => cell.classList.toggle("linked", from + i !== chosen && has(from + i)));
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

  // Dragging up increases the number, by 1 for a hundred pixels; dragging down decreases it.
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
