// ---- The visualiser: which token attends to which in a model

// Bytes, and float32 numbers, from base64.
function bytes(text) {
  const binary = atob(text), found = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) found[i] = binary.charCodeAt(i);
  return found;
}
const floats = (packed) => new Float32Array(bytes(packed.f4).buffer);

// One layer's attention in one sequence. Scores, weights and gradients are computed from the library's arrays on demand, a row
// at a time, by generators, so that no frame waits for a whole matrix.
class LayerSeen {
  constructor(data) {
    Object.assign(this, { heads: data.heads, n: data.n, m: data.m, d: data.d, scale: data.scale, fromScores: data.weights === null });
    this.data = data;
    this.made = new Map();
  }
  // Compute a value when it is first needed, and keep it.
  once(name, make) { if (!this.made.has(name)) this.made.set(name, make()); return this.made.get(name); }
  // The same in steps: a second caller continues where the first one stopped.
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
  // (n m): 1 = this query may not look at that key; head -1: in no head.
  masked(head) {
    return this.once(`masked ${head}`, () => {
      const { n, m } = this, packed = this.once("bits", () => bytes(this.data.allowed)), bit = (i) => (packed[i >> 3] >> (i & 7)) & 1;
      const of = !this.data.by_head ? [0] : head >= 0 ? [head] : Array.from({ length: this.heads }, (_, h) => h);
      return Uint8Array.from({ length: n * m }, (_, i) => (of.some((h) => bit(h * n * m + i)) ? 0 : 1));
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
  // (n m): this gradient times the weight: to first order, what the output would lose if the weight were 0. head -1: summed over heads.
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

// (n n): roll-out up to a layer. The zeros at the end of a row are not multiplied.
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
  inputs: ["what the answer rests on", "Gradient times input: to first order, what the chosen answer would lose if the first block's input for a token were 0. It ignores interactions."],
  weights: ["attention weights", "Each row sums to 1. A weight says what was taken, not what mattered: the output may not depend on it."],
  rollout: ["roll-out up to this layer", "Products of (mean weights + 1) / 2, layer by layer (Abnar & Zuidema 2020): from which tokens information could have come. It leaves out values, feed-forward networks and norms."],
  gradient: ["gradient by each weight", "How fast the chosen answer changes with a weight, all else held. A weight cannot change alone: its row sums to 1."],
  product: ["gradient times weight", "To first order, what the chosen answer would lose if the weight were 0. It ignores interactions."],
};
const LARGEST = 10;      // how many weights are listed first, if there are more than twice as many tokens
const FEW = 30;          // up to this many tokens all lines are drawn; of more, only lines from the chosen token to its largest weights

function visualiser(data, root) {
  const runs = data.runs.map((run) => ({ ...run, layers: run.layers.map((layer) => new LayerSeen(layer)) }));
  const tokens = runs[0].tokens, n = tokens.length, seen = (text) => text || " ";
  const state = { token: runs[0].last, other: null, layer: 0, head: -1, lens: "inputs", form: "matrix", output: 0 };
  let kept = state.token;                                    // the token that looks while the pointer is at none
  const select = (label, key, options) => make("select", { "aria-label": label, on: { change: ({ target }) => choose({ [key]: Number.isInteger(state[key]) ? Number(target.value) : target.value }) } },
    ...options.map(([value, text]) => make("option", { value, text })));
  const most = Math.max(...runs.map((run) => run.layers.length)), heads = Math.max(...runs.flatMap((run) => run.layers.map((layer) => layer.heads)));
  const controls = {
    lens: select("view", "lens", Object.entries(LENSES).map(([key, [text]]) => [key, text])),
    layer: select("layer", "layer", Array.from({ length: most }, (_, i) => [i, `layer ${i + 1}`])),
    head: select("head", "head", [[-1, "all heads"], ...Array.from({ length: heads }, (_, i) => [i, `head ${i + 1}`])]),
    form: select("drawn as", "form", [["matrix", "as a matrix"], ["lines", "as lines"]]),
  };
  const note = make("p", { class: "faint" }), body = make("div", { class: runs.length > 1 ? "beside" : null });
  root.replaceChildren(make("h1", { text: data.title }), data.note ? make("p", { text: data.note }) : "",
    make("div", { class: "controls", role: "group", "aria-label": "what is shown" }, ...Object.values(controls)), note, body);

  const backward = () => state.lens === "gradient" || state.lens === "product";
  const of = (run) => run.layers[Math.min(state.layer, run.layers.length - 1)];
  const headOf = (layer) => Math.min(state.head, layer.heads - 1);

  // The matrix of the chosen view, (n n), in steps.
  function matrix(run, layer, head) {
    if (state.lens === "rollout") return rollout(run.layers, run.layers.indexOf(layer));
    if (!backward()) return layer.weightsOf(head);
    return state.lens === "product" ? layer.productOf(state.output, head) : layer.gradientOf(state.output, head);
  }
  const maskOf = (layer, head) => (state.lens === "rollout" ? null : layer.masked(head));      // roll-out has no mask
  const clamped = (i) => Math.max(0, Math.min(n - 1, i));
  const largest = (row, among) => among.filter((j) => row[j]).sort((a, b) => Math.abs(row[b]) - Math.abs(row[a])).slice(0, LARGEST);

  // Change the state, and draw the parts that depend on the change.
  function choose(changes) {
    const names = Object.keys(changes).filter((name) => changes[name] !== state[name]);
    if (!names.length) return;
    Object.assign(state, changes);
    draw((...asked) => asked.some((name) => names.includes(name)));
  }
  function draw(changed) {
    note.textContent = LENSES[state.lens][1];
    for (const [name, control] of Object.entries(controls)) control.value = state[name];
    for (const part of parts) part(changed);
  }
  const arrows = (box, go) => box.addEventListener("keydown", (event) => {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    go(by);
  });
  // Let a token be the one that looks: while the pointer is at it, or from now on, by a click or the keyboard.
  function looks(box) {
    for (const event of ["click", "focusin", "mouseover"]) {
      box.addEventListener(event, ({ target }) => {
        const token = Number(target.closest("[data-token]")?.dataset.token ?? -1);
        if (token >= 0) choose({ token: event === "mouseover" ? token : (kept = token) });
      });
    }
    box.addEventListener("mouseleave", () => choose({ token: kept }));
  }

  // Parts of every run; those of one kind follow each other, so that two runs are drawn together.
  const boxes = runs.map((run) => make("div", { class: "run" }, runs.length > 1 ? make("h2", { text: run.title }) : null));
  const PARTS = { answers, "what it looks at": looking, "layers and heads": small, "all tokens": mapping, "is it an explanation?": shuffled, "from scores to weights": stepping };
  const parts = Object.entries(PARTS).flatMap(([name, part]) => runs.map((run, r) => {
    const box = make("section", { class: `panel ${part.name}`, "aria-label": name });
    boxes[r].append(box);
    return part(run, box);
  }));
  body.replaceChildren(...boxes);

  // What the model answers, the best first. One is chosen, and explained.
  function answers(run, box) {
    const text = ({ value, share }) => (finite(share) ? `${said(100 * share)} %` : said(value, 4));
    const buttons = run.outputs.map((one, i) => make("button", { type: "button", title: one.name, data: { value: one.value, share: one.share }, on: { click: () => choose({ output: i, lens: backward() ? state.lens : "inputs" }) } },
      make("small", { text: one.rank || "" }), make("span", { text: seen(one.name) }), make("b", { text: text(one) }), one.came ? make("em", { text: "came next" }) : null));
    run.outputs.forEach((one, i) => { if (finite(one.share)) buttons[i].style.backgroundSize = `${100 * one.share}% 100%`; });
    const ranked = [...buttons.keys()].sort((a, b) => (run.outputs[a].rank || Infinity) - (run.outputs[b].rank || Infinity));
    const list = make("div", { role: "group", "aria-label": "answers: choose the one that is explained" }, ...ranked.map((i) => buttons[i])), stop = roving(list, ranked.map((i) => buttons[i]));
    box.append(make("h2", { text: finite(run.outputs[0].share) ? "Answers, by probability" : "Answers, by score" }), list);
    return (changed) => {
      if (!changed("output")) return;
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === state.output)));
      stop(ranked.indexOf(state.output));
    };
  }

  // Every token with what it adds to the answer, or with the weight that the chosen token gives to it. Elements are made once and filled
  // anew. If there are many tokens, the ten largest numbers come first.
  function looking(run, box) {
    const heading = make("h2"), total = make("p", { class: "number", "aria-live": "polite" }), slot = frames();
    const list = make("div", { class: "tokens", role: "group", "aria-label": "tokens: choose the one that looks" });
    const buttons = tokens.map((text, token) => make("button", { type: "button", title: text, data: { token } }, seen(text), make("small"))), stop = roving(list, buttons);
    const first = Array.from({ length: n > 2 * LARGEST ? LARGEST : 0 }, () => make("li", {}, make("span"), make("small"))), values = run.inputs.map(floats);
    looks(list);
    list.append(...buttons);
    box.append(heading, total, make("ol", { class: "tokens", "aria-label": "the largest" }, ...first), list);
    const paint = (item, text, rgb) => {
      item.lastChild.textContent = text;
      item.style.cssText = rgb ? `background: ${css(rgb)}; color: ${inkOn(rgb)}` : "";
    };
    function* draw() {
      const layer = of(run), head = headOf(layer), why = state.lens === "inputs", all = why ? null : yield* matrix(run, layer, head);
      const row = why ? values[state.output] : all.subarray(state.token * n, (state.token + 1) * n), colour = colours(row), masked = why ? null : maskOf(layer, head);
      const order = largest(row, [...row.keys()]), sum = said(row.reduce((a, b) => a + b, 0), 4);
      const { name, rank } = run.outputs[state.output];
      heading.replaceChildren(...(why ? [`What each token adds to ${rank ? "the score of " : ""}`, make("code", { text: seen(name) })]
        : ["What ", make("code", { text: seen(tokens[state.token]) }), ` ${backward() ? "would pass on" : "looks at"}, ${headed(run, layer, head)}`]));
      total.textContent = `${why || backward() ? "the sum is" : "the weights sum to"} ${sum}${first.length ? "; the ten largest, then all in order" : ""}`;
      first.forEach((item, i) => {
        const j = order[i];
        item.hidden = j === undefined;
        item.firstChild.textContent = seen(tokens[j]);
        paint(item, said(row[j], 2), item.hidden ? null : colour(row[j]));
      });
      for (let j = 0; j < n; j++) {
        const hidden = masked !== null && masked[state.token * n + j] === 1;
        paint(buttons[j], hidden ? "masked" : said(row[j], 2), hidden ? null : colour(row[j]));
        buttons[j].setAttribute("aria-label", `${tokens[j]}, ${hidden ? "masked" : said(row[j])}`);
        buttons[j].dataset.value = String(row[j]);
        buttons[j].classList.toggle("masked", hidden);
        yield;
      }
    }
    return (changed) => {
      if (changed("token")) {
        buttons.forEach((button, i) => { if (i === state.token) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current"); });
        stop(state.token);
      }
      if (changed("lens", "output") || (state.lens !== "inputs" && changed("token", "layer", "head"))) slot(draw());
    };
  }

  const headed = (run, layer, head) => `layer ${run.layers.indexOf(layer) + 1}, ${head < 0 ? "all heads" : `head ${head + 1}`}`;

  // All tokens, as a matrix or as lines.
  function mapping(run, box) {
    const slot = frames(), note = make("span", { class: "faint" }), heading = make("h2"), body = make("div"), mask = make("p", { class: "faint", text: run.mask });
    const drawn = make("div", { class: "lines", role: "group", tabindex: 0, "aria-label": "lines; up and down choose the token that looks" });
    let map = null, lens = null;
    box.append(heading, body, mask);
    looks(drawn);
    arrows(drawn, (by) => choose({ token: kept = clamped(state.token + by) }));
    function* draw() {
      const layer = of(run), head = headOf(layer);
      note.textContent = headed(run, layer, head);
      mask.hidden = state.form === "lines";
      if (state.form === "lines") {
        lens = null;
        heading.textContent = `Lines: the left looks at the right, ${note.textContent}`;
        if (body.firstChild !== drawn) body.replaceChildren(drawn);
        drawn.replaceChildren(...(yield* lines(run, layer, head)));
        return;
      }
      const values = yield* matrix(run, layer, head);
      if (lens !== state.lens) {
        lens = state.lens;
        map = heatMap({ shape: [n, n], values }, { name: LENSES[lens === "inputs" ? "weights" : lens][0], rows: tokens, columns: tokens, note, later: true,
          onChoose: (i) => choose({ token: kept = Math.floor(i / n), other: i % n }) });
        heading.textContent = "All tokens: rows look at columns";
        body.replaceChildren(map);
      }
      yield* map.fill(values, maskOf(layer, head));
    }
    return (changed) => { if (changed("lens", "layer", "head", "form") || (backward() && changed("output")) || (state.form === "lines" && changed("token"))) slot(draw()); };
  }

  // Lines between tokens, with a colour for each head: wide for large numbers, dashed for negative ones. Lines from the token that looks
  // stand out.
  function* lines(run, layer, head) {
    const all = [], which = state.lens === "rollout" || head >= 0 ? [head] : Array.from({ length: layer.heads }, (_, h) => h);
    for (const h of which) all.push(yield* matrix(run, layer, h));
    const rows = all.map((values) => values.subarray(state.token * n, (state.token + 1) * n)), every = [...tokens.keys()];
    const sums = every.map((j) => rows.reduce((sum, row) => sum + Math.abs(row[j]), 0)), right = n > FEW ? largest(sums, every).sort((a, b) => a - b) : every;
    const left = n > FEW ? [state.token] : every, shades = which.map((h) => `hsl(${(360 * Math.max(0, h)) / layer.heads} 75% ${theme() === "dark" ? 70 : 38}%)`);
    const size = Math.max(...all.flatMap((values) => left.map((i) => values.subarray(i * n, (i + 1) * n).reduce((a, b) => Math.max(a, Math.abs(b)), 0)))) || 1;
    const picture = vector("svg", { viewBox: `0 0 100 ${right.length}`, height: 22 * right.length, preserveAspectRatio: "none", "aria-hidden": "true" });
    for (const [a, i] of left.entries()) {
      for (const [b, j] of right.entries()) {
        all.forEach((values, h) => {
          const x = values[i * n + j], y = n > FEW ? right.length / 2 : a + 0.5, now = i === state.token;
          if (!finite(x) || Math.abs(x) < 0.01 * size) return;
          picture.append(vector("line", { x1: 0, y1: y, x2: 100, y2: b + 0.5 + (h - (all.length - 1) / 2) / (all.length + 1), stroke: shades[h], "stroke-width": (now ? 1 : 0) + (5 * Math.abs(x)) / size, "stroke-dasharray": x < 0 ? "5 3" : null,
            opacity: now ? 0.9 : 0.2, "vector-effect": "non-scaling-stroke", class: now ? "now" : null, "data-head": which[h], "data-from": i, "data-to": j, "data-value": x }));
        });
      }
      yield;
    }
    const key = which.map((h, at) => Object.assign(make("span", { class: "key", text: h < 0 ? "all heads" : `head ${h + 1}` }), { style: `border-color: ${shades[at]}` }));
    const says = (j) => which.map((h, at) => `${h < 0 ? "" : `head ${h + 1} `}${said(rows[at][j])}`).join(", ");
    return [make("p", { class: "faint" }, ...key, n > FEW ? `to the ${right.length} of ${n} tokens with the largest numbers` : ""),
      make("div", {}, ...left.map((i) => make("span", { title: tokens[i], text: seen(tokens[i]), data: { token: i }, "aria-current": i === state.token ? "true" : null }))), picture,
      make("div", {}, ...right.map((j) => make("span", { text: seen(tokens[j]), title: `${tokens[j]}: ${says(j)}` })))];
  }

  // Every layer and head, small.
  function small(run, box) {
    const all = [], slot = frames(), lines = run.layers.map((layer, l) => {
      const line = make("div", { class: "tokens" }, make("small", { text: `layer ${l + 1}` }));
      for (let head = 0; head < layer.heads; head++) {
        const canvas = make("canvas", { width: n, height: n, "aria-hidden": "true" });
        const pick = make("button", { type: "button", "aria-label": `layer ${l + 1}, head ${head + 1}`, on: { click: () => choose({ layer: l, head }) } }, canvas);
        line.append(pick);
        all.push({ layer, head, canvas, pick });
      }
      return line;
    });
    const map = make("div", { role: "group", "aria-label": "layers and heads: choose one" }, ...lines), stop = roving(map, all.map(({ pick }) => pick), run.layers[0].heads);
    box.append(make("h2", { text: "Layers and heads" }), map);
    function* draw() {
      for (const { layer, head, canvas } of all) {
        const values = yield* matrix(run, layer, head);
        image(canvas.getContext("2d"), values, n, n, colours(values), maskOf(layer, head));
        yield;
      }
    }
    return (changed) => {
      if (changed("layer", "head")) {
        const now = all.map(({ layer, head }) => layer === of(run) && (state.head < 0 || head === headOf(layer)));
        all.forEach(({ pick }, i) => pick.setAttribute("aria-pressed", String(now[i])));
        stop(now.indexOf(true));
      }
      if (changed("lens") || (backward() && changed("output"))) slot(draw());
    };
  }

  // The steps from score to weight for every key of the chosen query, and the vectors of one key, which arrow keys choose.
  // The table's rows are made once for its columns, and filled anew.
  function stepping(run, box) {
    const heading = make("h2"), other = make("p", { class: "faint", text: "This mechanism computes its weights in another way; queries and keys are its inputs." });
    const scroll = make("div", { class: "scroll", role: "group", tabindex: 0 }), whose = make("span"), slot = frames(), { d } = run.layers[0];
    const vectors = heatMap({ shape: [3, d], values: new Float32Array(3 * d) }, { name: "vectors", rows: ["q", "k", "v"], note: whose, later: true });
    let columns = "", lines = [], now = 0;
    box.append(heading, other, make("div", { class: "arrays" }, scroll, vectors));
    arrows(scroll, (by) => {
      choose({ other: clamped((state.other ?? state.token) + by) });
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
      whose.textContent = ` of head ${head + 1}: q of ${tokens[i]}, k and v of ${tokens[j]}`;
      yield* vectors.fill([["q", i], ["k", j], ["v", j]].flatMap(([name, key]) => [...layer.array(name).subarray((head * n + key) * d, (head * n + key + 1) * d)]));
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

  function shuffled(run, box) {
    const lines = run.shuffled.moved.map((moved, l) => make("tr", {}, make("td", { text: `layer ${l + 1}` }), make("td", { text: said(moved) })));
    box.append(make("h2", { text: "Is attention an explanation here?" }),
      make("p", { text: "The weights of the token that answers are permuted at random among the tokens, in all heads of one layer at a time. If the best score hardly moves, compared with the spread of all scores, those weights do not explain it." }),
      make("p", { text: `The spread, a standard deviation, is ${said(run.shuffled.spread)}.` }),
      make("table", { class: "steps" }, make("tr", {}, ...["layer", "the best score moves by"].map((text) => make("th", { scope: "col", text }))), ...lines));
    return () => {};
  }

  const all = () => true;
  onTheme(() => draw(all));
  draw(all);
}

open(visualiser);
