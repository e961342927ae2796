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

open(visualiser);
