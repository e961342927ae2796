// ---- The mirror: an algorithm above, its backward below, and for every entry the terms of which it is computed

const STEP = 0.001;                                          // added to an entry when it is nudged
const WIDTHS = [33, 46], HEIGHT = 22, GAP = [22, 38], LABEL = 58;          // pixels: cells (least and most width, height), gaps between arrays (across, down), tokens' names
const OTHERS = 310;                                          // pixels above and below the picture

// A number in at most five characters, so with two decimals or fewer; "0" is exactly 0.
const brief = (x) => (x === 0 ? "0" : Math.abs(x) < 1e5 ? x.toFixed(Number.isInteger(x) ? 0 : Math.abs(x) < 10 ? 2 : Math.abs(x) < 1000 ? 1 : 0) : x.toExponential(0)).replace(/^-0\.00$/, "0.00").replace(/^-/, "−");
const term = (x) => (x < 0 ? `(${said(x)})` : said(x));

// A rule is a function (get, i, j) -> the entry's value, its terms [name, row, column], and its sum, written out in numbers.

// factor · Σ a b over the pairs of entries that pairs(i, j) lists.
const product = (pairs, factor = () => 1) => (get, i, j) => {
  const list = pairs(i, j), scale = factor(), sum = list.reduce((total, [a, b]) => total + get(...a) * get(...b), 0);
  const text = list.map(([a, b]) => `${term(get(...a))} · ${term(get(...b))}`).join(" + ");
  return { value: scale * sum, terms: list.flat(), sum: scale === 1 ? text : `${term(scale)} (${text})` };
};

// The softmax of each row of `s`, which has a block of m columns for each head. In allowed(i, j), j is the column within the block.
const softmax = (s, m, allowed) => (get, i, column) => {
  const first = column - (column % m), seen = Array.from({ length: m }, (_, j) => j).filter((j) => allowed(i, j)), at = (j) => get(s, i, first + j);
  if (!seen.includes(column - first)) return { value: 0, terms: [], sum: "masked" };
  const most = Math.max(...seen.map(at)), powers = seen.map((j) => Math.exp(at(j) - most)), total = powers.reduce((a, b) => a + b, 0);
  const text = (j) => `exp(${said(at(j))}${most < 0 ? ` + ${said(-most)}` : ` − ${said(most)}`})`;
  return { value: Math.exp(get(s, i, column) - most) / total, terms: seen.map((j) => [s, i, first + j]), sum: `${text(column - first)} / (${seen.map(text).join(" + ")})` };
};

const softmaxBackward = (p, dp, m) => (get, i, column) => {
  const first = column - (column % m), all = Array.from({ length: m }, (_, j) => first + j);
  const mean = all.reduce((sum, j) => sum + get(p, i, j) * get(dp, i, j), 0);
  return { value: get(p, i, column) * (get(dp, i, column) - mean), terms: all.flatMap((j) => [[p, i, j], [dp, i, j]]),
    sum: `${said(get(p, i, column))} (${said(get(dp, i, column))} − (${all.map((j) => `${said(get(p, i, j))} · ${term(get(dp, i, j))}`).join(" + ")}))` };
};

const range = (size) => Array.from({ length: size }, (_, i) => i);
const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;

// Attention of n tokens in h heads. Columns of scores and weights: a block of n for each head.
function attentionParts({ n, D, E, settings, allowed }, out, dout) {
  const heads = () => settings.heads, scale = () => settings.scale, head = (j) => Math.floor(j / n), d = () => D / heads(), e = () => E / heads();
  const block = (j, c, width) => head(j) * width + c, wide = () => n * heads();
  return [
    { name: "s", of: "ds", rows: n, columns: wide, line: "s = scale q kᵀ", masks: true, at: product((i, j) => range(d()).map((c) => [["q", i, block(j, c, d())], ["k", j % n, block(j, c, d())]]), scale) },
    { name: "p", of: "dp", rows: n, columns: wide, line: "p = softmax(s)", masks: true, at: softmax("s", n, allowed) },
    { name: out, of: dout, rows: n, columns: () => E, line: `${out} = p v`, at: product((i, c) => range(n).map((j) => [["p", i, Math.floor(c / e()) * n + j], ["v", j, c]])) },
    { name: "dp", rows: n, columns: wide, line: `dp = ${dout} vᵀ`, undoes: `${out} = p v`, masks: true, at: product((i, j) => range(e()).map((c) => [[dout, i, block(j, c, e())], ["v", j % n, block(j, c, e())]])) },
    { name: "dv", rows: n, columns: () => E, line: `dv = pᵀ ${dout}`, undoes: `${out} = p v`, at: product((j, c) => range(n).map((i) => [["p", i, Math.floor(c / e()) * n + j], [dout, i, c]])) },
    { name: "ds", rows: n, columns: wide, line: "ds = p (dp − Σ p dp)", undoes: "p = softmax(s)", masks: true, at: softmaxBackward("p", "dp", n) },
    { name: "dq", rows: n, columns: () => D, line: "dq = scale ds k", undoes: "s = scale q kᵀ", at: product((i, c) => range(n).map((j) => [["ds", i, Math.floor(c / d()) * n + j], ["k", j, c]]), scale) },
    { name: "dk", rows: n, columns: () => D, line: "dk = scale dsᵀ q", undoes: "s = scale q kᵀ", at: product((j, c) => range(n).map((i) => [["ds", i, Math.floor(c / d()) * n + j], ["q", i, c]]), scale) },
  ];
}

const given = (name, of, rows, columns) => ({ name, of, rows, columns: () => columns });
const maps = (x, W, inner) => product((i, j) => range(inner).map((c) => [[x, i, c], [W, c, j]]));                // y = x W

// The arrays of each algorithm in the order in which they are computed. Arrays without a rule can be changed by the reader.
const ALGORITHMS = {
  attention({ n, sizes: { D, E }, settings, allowed }) {
    return [given("q", "dq", n, D), given("k", "dk", n, D), given("v", "dv", n, E), given("dout", null, n, E), ...attentionParts({ n, D, E, settings, allowed }, "out", "dout")];
  },

  multi_head_attention({ n, sizes: { D }, settings, allowed }) {
    const W = ["q", "k", "v"], from = (a, b) => (i, j) => range(n).map((t) => [[a, t, i], [b, t, j]]);
    const parts = attentionParts({ n, D, E: D, settings, allowed }, "o", "do");
    return [
      given("x", "dx", n, D), ...W.map((name) => given(`W_${name}`, `dW_${name}`, D, D)), given("W_o", "dW_o", D, D), given("dy", null, n, D),
      ...W.map((name) => ({ name, of: `d${name}`, rows: n, columns: () => D, line: `${name} = x W_${name}`, at: maps("x", `W_${name}`, D) })),
      ...parts.slice(0, 3),
      { name: "y", of: "dy", rows: n, columns: () => D, line: "y = o W_o", at: maps("o", "W_o", D) },
      { name: "do", rows: n, columns: () => D, line: "do = dy W_oᵀ", undoes: "y = o W_o", at: product((i, c) => range(D).map((j) => [["dy", i, j], ["W_o", c, j]])) },
      { name: "dW_o", rows: D, columns: () => D, line: "dW_o = oᵀ dy", undoes: "y = o W_o", at: product(from("o", "dy")) },
      ...parts.slice(3),
      ...W.map((name) => ({ name: `dW_${name}`, rows: D, columns: () => D, line: `dW_${name} = xᵀ d${name}`, undoes: `${name} = x W_${name}`, at: product(from("x", `d${name}`)) })),
      { name: "dx", rows: n, columns: () => D, line: "dx = dq W_qᵀ + dk W_kᵀ + dv W_vᵀ", undoes: "q = x W_q, k = x W_k, v = x W_v",
        at: product((i, c) => W.flatMap((name) => range(D).map((j) => [[`d${name}`, i, j], [`W_${name}`, c, j]]))) },
    ];
  },

  linear({ n, sizes: { D, E } }) {
    return [given("x", "dx", n, D), given("W", "dW", D, E), given("dy", null, n, E),
      { name: "y", of: "dy", rows: n, columns: () => E, line: "y = x W", at: maps("x", "W", D) },
      { name: "dx", rows: n, columns: () => D, line: "dx = dy Wᵀ", undoes: "y = x W", at: product((i, c) => range(E).map((j) => [["dy", i, j], ["W", c, j]])) },
      { name: "dW", rows: D, columns: () => E, line: "dW = xᵀ dy", undoes: "y = x W", at: product((i, j) => range(n).map((t) => [["x", t, i], ["dy", t, j]])) }];
  },

  softmax({ n, sizes: { m } }) {
    return [given("s", "ds", n, m), given("dp", null, n, m),
      { name: "p", of: "dp", rows: n, columns: () => m, line: "p = softmax(s)", at: softmax("s", m, () => true) },
      { name: "ds", rows: n, columns: () => m, line: "ds = p (dp − Σ p dp)", undoes: "p = softmax(s)", at: softmaxBackward("p", "dp", m) }];
  },

  layer_norm({ n, sizes: { D }, settings }) {
    const row = (name, i) => range(D).map((c) => [name, i, c]), all = (get, name, i) => row(name, i).map((entry) => get(...entry));
    const rule = (name, of, rows, columns, line, undoes, at) => ({ name, of, rows, columns: () => columns, line, undoes, at });
    return [
      given("x", "dx", n, D), given("gamma", "dgamma", 1, D), given("beta", "dbeta", 1, D), given("dy", null, n, D),
      rule("rstd", null, n, 1, "rstd = 1 / √(mean((x − mean(x))²) + eps)", null, (get, i) => {
        const x = all(get, "x", i), middle = mean(x), variance = mean(x.map((a) => (a - middle) ** 2));
        return { value: 1 / Math.sqrt(variance + settings.eps), terms: row("x", i), sum: `1 / √(${said(variance)} + ${said(settings.eps)})` };
      }),
      rule("x_hat", "dx_hat", n, D, "x_hat = (x − mean(x)) rstd", null, (get, i, j) => {
        const middle = mean(all(get, "x", i)), rstd = get("rstd", i, 0);
        return { value: (get("x", i, j) - middle) * rstd, terms: [...row("x", i), ["rstd", i, 0]], sum: `(${said(get("x", i, j))} − ${term(middle)}) · ${said(rstd)}` };
      }),
      rule("y", "dy", n, D, "y = gamma x_hat + beta", null, (get, i, j) => ({ value: get("gamma", 0, j) * get("x_hat", i, j) + get("beta", 0, j),
        terms: [["gamma", 0, j], ["x_hat", i, j], ["beta", 0, j]], sum: `${term(get("gamma", 0, j))} · ${term(get("x_hat", i, j))} + ${term(get("beta", 0, j))}` })),
      rule("dbeta", null, 1, D, "dbeta = Σ dy", "y = gamma x_hat + beta", (get, _, j) => ({ value: range(n).reduce((sum, i) => sum + get("dy", i, j), 0),
        terms: range(n).map((i) => ["dy", i, j]), sum: range(n).map((i) => term(get("dy", i, j))).join(" + ") })),
      rule("dgamma", null, 1, D, "dgamma = Σ dy x_hat", "y = gamma x_hat + beta", product((_, j) => range(n).map((i) => [["dy", i, j], ["x_hat", i, j]]))),
      rule("dx_hat", null, n, D, "dx_hat = gamma dy", "y = gamma x_hat + beta", product((i, j) => [[["gamma", 0, j], ["dy", i, j]]])),
      rule("dx", null, n, D, "dx = rstd (dx_hat − mean(dx_hat) − x_hat mean(dx_hat x_hat))", "x_hat = (x − mean(x)) rstd, and rstd", (get, i, j) => {
        const g = all(get, "dx_hat", i), h = all(get, "x_hat", i), rstd = get("rstd", i, 0), both = mean(g.map((a, c) => a * h[c]));
        return { value: rstd * (g[j] - mean(g) - h[j] * both), terms: [...row("dx_hat", i), ...row("x_hat", i), ["rstd", i, 0]],
          sum: `${said(rstd)} (${said(g[j])} − ${term(mean(g))} − ${term(h[j])} · ${term(both)})` };
      }),
    ];
  },
};

function mirror(data, root) {
  const { tokens, goal } = data, n = tokens.length, has = (part) => !data.hide.includes(part);
  const settings = { heads: data.heads, scale: data.scale, eps: data.eps }, MASKS = { "nothing": () => true, "what comes later": (i, j) => j <= i, "itself": (i, j) => i !== j };
  let mask = data.mask, inputs = { ...data.arrays };
  const allowed = (i, j) => mask[i * n + j];
  const parts = ALGORITHMS[data.algorithm]({ n, sizes: data.sizes, settings, allowed }), named = new Map(parts.map((part) => [part.name, part]));
  const shown = parts.filter((part) => part.of !== undefined || (has("backward") && part.undoes));
  const gradients = new Map(parts.filter((part) => part.of).map((part) => [part.of, part.name]));       // dq -> q
  const isGradient = (name) => gradients.has(name);
  const pairs = shown.filter((part) => !isGradient(part.name) && part.of !== undefined).map((part) => [part, has("backward") && part.of ? named.get(part.of) : null]);
  const forward = pairs.map(([part]) => part), key = (name, i, j) => `${name} ${i} ${j}`;

  // Compute all values by the rules, in order. An entry in `fixed` (key -> value) gets that value instead.
  function compute(fixed = new Map()) {
    const found = new Map(), get = (name, i, j) => found.get(name)[i * named.get(name).columns() + j];
    for (const { name, rows, columns, at } of parts) {
      const width = columns(), values = at ? new Array(rows * width) : [...inputs[name]];
      found.set(name, values);
      for (let e = 0; e < rows * width; e++) {
        const i = Math.floor(e / width), j = e % width;
        if (at) values[e] = at(get, i, j).value;
        if (fixed.has(key(name, i, j))) values[e] = fixed.get(key(name, i, j));
      }
    }
    return { found, get };
  }
  const output = forward[forward.length - 1], upstream = output.of;
  // ⟨dout, out⟩, whose gradient by out is dout.
  const loss = (fixed) => { const { found } = compute(fixed); return found.get(output.name).reduce((sum, x, e) => sum + x * inputs[upstream][e], 0); };

  const marks = vector("g", { "pointer-events": "none" });
  let cell = WIDTHS[1];                                       // the width of a cell
  let state = compute(), before = state, ranges, chosen = null, hovered = null, playing = null, cells = new Map();
  const measure = () => (ranges = new Map(parts.map(({ name }) => [name, name === "p" ? colours([1]) : colours(state.found.get(name).flatMap((x) => [x, -x]))])));
  measure();

  const verdict = make("p", { role: "status" }), says = make("div", { class: "panel sum", "aria-live": "polite" }), picture = make("div", { class: "mirror" });
  const button = (text, action) => make("button", { type: "button", text, on: { click: action } });
  const scale = make("input", { type: "range", min: Math.min(0, data.scale), max: Math.max(3, data.scale), step: 0.01, "aria-label": "scale", on: { input: () => turn({ scale: Number(scale.value) }) } });
  const scaleSaid = make("span", { class: "number" }), natural = () => 1 / Math.sqrt((data.sizes.D || 1) / settings.heads);
  const heads = make("select", { "aria-label": "heads", on: { change: () => turn({ heads: Number(heads.value) }, true) } });
  for (const h of range(data.sizes.D || 0).map((c) => c + 1)) if (data.sizes.D % h === 0 && (data.sizes.E || h) % h === 0) heads.append(make("option", { value: h, text: h, selected: h === settings.heads }));
  const hides = make("select", { "aria-label": "the mask hides", on: { change: () => { mask = mask.map((_, e) => MASKS[hides.value](Math.floor(e / n), e % n)); turn({}); } } },
    ...Object.keys(MASKS).map((text) => make("option", { value: text, text })), make("option", { value: "", text: "as at first", disabled: true }));
  const play = button("Play", () => (playing ? stop() : start()));
  const attends = parts.some((part) => part.masks);
  const controls = make("div", { class: "controls", role: "group", "aria-label": "settings" }, play,
    ...(attends && has("scale") ? [make("label", {}, "scale ", scale), scaleSaid, button("1 / √d", () => turn({ scale: natural() }))] : []),
    attends && has("heads") ? make("label", {}, "heads ", heads) : null, attends && has("mask") ? make("label", {}, "the mask hides ", hides) : null,
    button("Start again", () => { inputs = { ...data.arrays }; mask = data.mask; heads.value = data.heads; turn({ heads: data.heads, scale: data.scale }, true); measure(); draw(); }),
    button("Save as SVG", () => handOver(`${data.algorithm}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(picture.firstChild))));
  const changeable = parts.filter((part) => !part.at && (has("backward") || !isGradient(part.name))).map((part) => part.name);
  root.replaceChildren(make("h1", { text: data.title }), make("p", { class: "faint",
    text: `Point at any number to see its terms. Drag a number of ${changeable.slice(0, -1).join(", ")} or ${changeable[changeable.length - 1]} up or down, or press + and −; the rest follows.` }),
    goal ? make("p", {}, make("strong", { text: goal.says })) : "", verdict, controls, picture, says);

  function turn(changes, anew = false) {
    stop();
    Object.assign(settings, changes);
    before = state;
    if (anew) chosen = hovered = null;
    state = compute();
    if (anew) { before = state; draw(); } else paint();
  }

  function edit(name, i, j, value) {
    inputs = { ...inputs, [name]: inputs[name].with(i * named.get(name).columns() + j, Math.round(value * 1e6) / 1e6) };
    state = compute();
    paint();
  }

  // ---- the picture

  // Arrays side by side in as few lines as the width allows, of about equal length, with the widest cells that need no more lines.
  function lines() {
    const room = Math.max(picture.clientWidth, 320);
    const fold = (within, width) => {
      const all = [[]];
      let used = LABEL;
      for (const pair of pairs) {
        const more = pair[0].columns() * width + GAP[0];
        if (used + more - GAP[0] > within && all[all.length - 1].length) { all.push([]); used = LABEL; }
        all[all.length - 1].push(pair);
        used += more;
      }
      return all;
    };
    const fewest = fold(room, WIDTHS[0]).length;
    cell = WIDTHS[1];
    while (cell > WIDTHS[0] && fold(room, cell).length > fewest) cell--;
    let within = room;
    while (within > LABEL && fold(within - 8, cell).length === fewest) within -= 8;
    return fold(within, cell);
  }

  function draw() {
    cells = new Map();
    const held = under({ target: document.activeElement || root });  // the cell that has the focus keeps it
    const tall = (line) => Math.max(...line.map(([part]) => part.rows)) * HEIGHT + GAP[1], folded = lines(), sheet = [];
    const heightOf = (all) => all.reduce((sum, [line]) => sum + tall(line), 0);
    let y = 0, width = 0;
    const fold = () => {
      sheet.push(vector("line", { x1: 0, x2: "100%", y1: y + 1, y2: y + 1, stroke: "currentColor", "stroke-dasharray": "2 5" }));
      y += 8;
    };
    const upper = folded.map((line) => [line, 0]), lower = has("backward") ? [...folded].reverse().map((line) => [line, 1]) : [];
    for (const [line, which] of [...upper, ...lower]) {
      if (which === 1 && y === heightOf(upper)) fold();
      let x = LABEL;
      for (const pair of line) {
        const part = pair[which], [first] = pair;
        if (part) sheet.push(arrayAt(part, x, y, line.indexOf(pair) === 0));
        x += first.columns() * cell + GAP[0];
      }
      width = Math.max(width, x - GAP[0]);
      y += tall(line);
    }
    // As large as the screen allows, for a lecture hall.
    const zoom = Math.max(1, Math.min(1.6, picture.clientWidth / (width + 2), (window.innerHeight - OTHERS) / y));
    picture.replaceChildren(vector("svg", { viewBox: `0 0 ${width + 2} ${y}`, width: zoom * (width + 2), height: zoom * y, "font-family": "ui-monospace, Menlo, Consolas, monospace", "font-size": cell < 40 ? 10 : 12, fill: "currentColor", role: "group", "aria-label": data.title }, ...sheet, marks));
    paint();
    if (held && cells.has(key(...held))) cells.get(key(...held)).node.focus({ preventScroll: true });
  }

  const short = (text) => ([...text].length > 7 ? `${[...text].slice(0, 6).join("")}…` : text);

  function arrayAt(part, x, y, first) {
    const { name, rows, masks } = part, columns = part.columns(), grid = vector("g", { role: "grid", "aria-label": `${name}, ${rows} by ${columns}`, "data-name": name });
    const title = vector("text", { x, y: y + 14, "font-weight": "bold" }, part.at ? name : `${name} ↕`), character = cell < 40 ? 6.1 : 7.3;
    const heading = part.line && part.line.length * character < columns * cell + GAP[0] ? part.line.slice(name.length) : "";
    title.append(vector("tspan", { "font-weight": "normal", "fill-opacity": 0.75 }, heading));
    grid.append(title);
    for (let i = 0; i < rows; i++) {
      const row = vector("g", { role: "row" });
      if (first && rows === n) row.append(vector("text", { x: x - 6, y: y + 36 + i * HEIGHT, "text-anchor": "end", "fill-opacity": 0.75 }, short(tokens[i])));
      for (let j = 0; j < columns; j++) {
        const x0 = x + j * cell, y0 = y + 21 + i * HEIGHT, head = masks && settings.heads > 1 && j % n === 0 && j > 0;
        const box = vector("rect", { x: x0, y: y0, width: cell, height: HEIGHT, stroke: "#888888", "stroke-opacity": 0.5 }), text = vector("text", { x: x0 + cell - 3, y: y0 + 15, "text-anchor": "end" });
        const node = vector("g", { role: "gridcell", tabindex: i + j === 0 ? 0 : -1, class: part.at ? "entry" : "entry edited" }, box, text);
        if (head) node.append(vector("line", { x1: x0, x2: x0, y1: y0, y2: y0 + HEIGHT, stroke: "currentColor", "stroke-width": 3 }));
        node.entry = [name, i, j];
        cells.set(key(name, i, j), { node, box, text, part });
        row.append(node);
      }
      grid.append(row);
    }
    return grid;
  }

  function paint() {
    const light = hovered || chosen, terms = light ? new Set(explain(light).terms.map((entry) => key(...entry))) : new Set();
    const partner = light && (isGradient(light[0]) ? gradients.get(light[0]) : named.get(light[0]).of);
    const outlines = [];                                     // drawn above the cells, so that these keep the focus
    for (const { node, box, text, part } of cells.values()) {
      const [name, i, j] = node.entry, value = state.get(name, i, j), hidden = part.masks && !allowed(i, j % n), at = key(name, i, j);
      const rgb = ranges.get(name)(value), ground = hidden ? PALETTE[theme()].masked : rgb || PALETTE[theme()].zero;
      box.setAttribute("fill", css(ground));
      text.setAttribute("fill", inkOn(ground));
      text.textContent = hidden && name === "s" ? "−∞" : brief(value);
      node.dataset.value = String(value);
      node.setAttribute("aria-label", `${name}[${i}, ${j}] = ${said(value, 6)}${hidden ? ", masked" : ""}`);
      const moved = Math.abs(value - before.get(name, i, j)) > 1e-9, chosenHere = light && at === key(...light);
      const across = light && partner === name && i === light[1] && j === light[2];            // the gradient of the chosen entry, or the entry whose gradient is chosen
      const how = chosenHere ? ["--ink", 3] : terms.has(at) ? ["--mark", 3] : moved ? ["--mark-2", 2.5] : across ? ["--ink", 2, "3 3"] : null;
      if (how) outlines.push(vector("rect", { x: box.getAttribute("x"), y: box.getAttribute("y"), width: cell, height: HEIGHT, fill: "none", stroke: tone(how[0]), "stroke-width": how[1], "stroke-dasharray": how[2] || "none" }));
    }
    marks.replaceChildren(...outlines);
    tell(light);
    hides.value = Object.keys(MASKS).find((text) => mask.every((x, e) => x === MASKS[text](Math.floor(e / n), e % n))) || "";
    scale.value = settings.scale;
    scaleSaid.textContent = `${said(settings.scale, 4)}${Math.abs(settings.scale - natural()) < 1e-9 ? " = 1 / √d" : ""}`;
    if (goal) {
      const share = Math.min(...range(settings.heads).map((h) => state.get("p", goal.row, h * n + goal.column))), done = share >= goal.least;
      verdict.textContent = done ? `Done: the weight is ${said(share)}.` : `The weight is ${said(share)}; the goal is ${said(goal.least)}.`;
      verdict.className = done ? "agree" : "";
    }
  }
  const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // ---- an entry, explained

  function explain([name, i, j]) {
    const { at } = named.get(name);
    return at ? at(state.get, i, j) : { value: state.get(name, i, j), terms: [], sum: "" };
  }

  let told = [];
  function tell(entry) {
    const what = [entry ? key(...entry) : "", state];
    if (what.every((x, i) => x === told[i])) return;         // keep the result of a nudge on the page
    told = what;
    if (!entry) { says.replaceChildren(make("p", { class: "faint", text: "Point at a number, tap it, or reach it with Tab and the arrow keys." })); return; }
    const [name, i, j] = entry, part = named.get(name), { value, sum } = explain(entry), label = `${name}[${i}, ${j}]`;
    const undone = isGradient(name) && part.undoes;
    const text = part.at ? `${label} = ${sum} = ${said(value, 4)}` : `${label} = ${said(value, 4)}, which you can drag`;
    says.replaceChildren(
      make("p", {}, make("code", { text: part.line || (isGradient(name) ? `${name}: the gradient of the loss by ${gradients.get(name)}, chosen freely` : `${name}: an input`) }), undone ? make("span", { class: "faint" }, "  undoes  ", make("code", { text: part.undoes })) : null),
      make("p", { class: "number", text }), has("backward") ? nudge(entry) : "");
  }

  // A button that nudges the entry (of a gradient: the number that it belongs to), and compares the loss's change with the gradient.
  function nudge([name, i, j]) {
    const of = isGradient(name) ? gradients.get(name) : name, by = named.get(of).of, result = make("span", { class: "number" });
    if (!by) return "";
    const at = `${of}[${i}, ${j}]`, signed = (x) => `${x < 0 ? "−" : "+"}${said(Math.abs(x))}`;
    return make("p", {}, button(`Nudge ${at}`, () => {
      const x = state.get(of, i, j), change = (loss(new Map([[key(of, i, j), x + STEP]])) - loss(new Map([[key(of, i, j), x - STEP]]))) / 2, promised = STEP * state.get(by, i, j);
      const agree = Math.abs(change - promised) <= 1e-4 * Math.abs(promised) + 1e-9;
      result.textContent = ` ${at} + ${STEP}: the loss changes by ${signed(change)}; ${by}[${i}, ${j}] predicts ${STEP} · ${term(state.get(by, i, j))} = ${signed(promised)}: ${agree ? "they agree" : "they differ"}`;
    }), result);
  }

  // ---- pointer and keyboard

  const under = (event) => { const cell = event.target.closest && event.target.closest("g.entry"); return cell ? cell.entry : null; };
  picture.addEventListener("pointerover", (event) => { if (event.pointerType === "mouse" && under(event)) { stop(); hovered = under(event); paint(); } });
  picture.addEventListener("pointerleave", () => { if (!playing) { hovered = null; paint(); } });
  picture.addEventListener("focusin", (event) => { if (under(event)) choose(under(event)); });
  picture.addEventListener("pointerdown", (event) => {
    const entry = under(event);
    if (!entry || event.button !== 0 || !event.isPrimary) return;          // a right click, or a second finger
    stop();
    const [name, i, j] = entry;
    before = state;
    choose(entry);
    cells.get(key(...entry)).node.focus();
    if (named.get(name).at) return;
    const from = state.get(name, i, j), y = event.clientY;
    const move = (to) => to.isPrimary && edit(name, i, j, from + Math.round(y - to.clientY) / 100);
    const end = () => { picture.removeEventListener("pointermove", move); picture.removeEventListener("pointerup", end); picture.removeEventListener("pointercancel", end); };
    picture.setPointerCapture(event.pointerId);
    picture.addEventListener("pointermove", move);
    picture.addEventListener("pointerup", end);
    picture.addEventListener("pointercancel", end);
  });
  picture.addEventListener("keydown", (event) => {
    const entry = under(event);
    if (!entry) return;
    const [name, i, j] = entry, step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const change = { "+": 0.1, "=": 0.1, "-": -0.1, "−": -0.1, PageUp: 1, PageDown: -1 }[event.key];
    if (change !== undefined && !named.get(name).at) { stop(); before = state; edit(name, i, j, state.get(name, i, j) + change); }
    else if (step && cells.has(key(name, i + step[0], j + step[1]))) {
      cells.get(key(...entry)).node.setAttribute("tabindex", -1);
      const next = cells.get(key(name, i + step[0], j + step[1])).node;
      next.setAttribute("tabindex", 0);
      next.focus();
    } else return;
    event.preventDefault();
  });
  function choose(entry) { stop(); chosen = entry; hovered = null; paint(); }

  // ---- once forward and back, in ten seconds

  const SECONDS = 10;
  function start() {
    const order = parts.filter((part) => part.at && cells.has(key(part.name, 0, 0))), pause = (1000 * SECONDS) / order.length;
    let k = 0;
    play.textContent = "Stop";
    const next = () => {
      if (k === order.length) { stop(); return; }
      const part = order[k++];
      hovered = [part.name, Math.min(1, part.rows - 1), 0];
      paint();
      playing = window.setTimeout(next, pause);
    };
    next();
  }
  function stop() {
    if (!playing) return;
    window.clearTimeout(playing);
    playing = null;
    hovered = null;
    play.textContent = "Play";
    paint();
  }

  onTheme(draw);
  onWidth(picture, draw);
  draw();
  if (!calm.matches && data.plays) start();
}

open(mirror);
