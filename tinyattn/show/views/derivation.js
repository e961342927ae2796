// ---- A derivation: from step to step its terms move to their next places, and the example's numbers follow

const TIME = 900;                                            // milliseconds of a move
const isName = (text) => /^\p{L}/u.test(text);
const symbol = (key) => key.replace(/\d+/, "");               // p2 is a copy of p

const formula = elements("<math>");

// Atoms [key, text, place] as MathML. A script (place 1 or -1) belongs to the atom before it. With `moves`, nodes get keys for their moves.
function asMath(atoms, moves) {
  const line = [];
  for (const [key, text, place] of atoms) {
    const kind = text === "δL" ? null : text.startsWith("δ") ? "change" : /^d\p{L}/u.test(text) ? "gradient" : null;
    const factor = text === "\u2062" ? "0.09em" : null;      // an invisible times, as wide as a thin space
    const node = formula(isName(text) ? "mi" : "mo", { "data-key": moves ? key : null, class: kind, stretchy: isName(text) ? null : "false", lspace: factor, rspace: factor }, text);
    line.push(place === 0 ? node : formula(place > 0 ? "msup" : "msub", {}, line.pop(), node));
  }
  return formula("math", { display: "block" }, formula("mrow", {}, ...line));
}

const plain = (atoms) => atoms.map(([, text]) => text).join("");
const decimals = (x) => x.toFixed(2).replace("-0.00", "0.00").replace("-", "−");

function derivation({ title, steps }, root) {
  const shade = colours(steps.flatMap(({ products }) => products.flatMap(({ factors }) => factors.flatMap(({ values }) => values.flatMap((x) => [x, -x])))));
  const cells = [], last = steps.length - 1;
  let now = 0;
  const button = (text, action) => make("button", { type: "button", text, on: { click: action } });
  const back = button("Back", () => go(now - 1)), next = button("Next", () => go(now + 1)), count = make("span", { class: "number" });
  const spoken = make("p", { class: "hidden", "aria-live": "polite" });
  const articles = steps.map(article), stage = make("div", { class: "stage", tabindex: 0, role: "group" }, ...articles);
  root.replaceChildren(make("h1", { text: title }), make("p", { class: "faint", text: "Arrow keys or space go step by step. The example has numbers; its total stays the same." }),
    make("div", { class: "controls", role: "group", "aria-label": "steps" }, back, next, count), stage, spoken);

  function grid({ atoms, shape: [rows, columns], values }, slot) {
    const table = make("table", { class: "grid", role: "img", "aria-label": `${plain(atoms)}, ${rows} by ${columns}: ${values.map((x) => said(x)).join(", ")}` });
    for (let r = 0; r < rows; r++) table.append(make("tr", {}, ...values.slice(r * columns, (r + 1) * columns).map((value) => {
      const cell = make("td", { text: decimals(value) });
      cells.push([cell, value]);
      return cell;
    })));
    return make("div", { class: "factor", data: { key: `${plain(atoms)} ${slot}` } }, asMath(atoms, false), table);
  }

  function article({ says, lines, products, sum }) {
    const span = (text) => make("span", { text });
    return make("article", {}, make("div", { class: "formula" }, ...lines.map((atoms) => asMath(atoms, true))), make("p", { text: says }),
      make("div", { class: "example" }, ...products.map(({ opening, between, closing, factors }, i) => make("div", { class: "product" }, span(opening),
        ...factors.flatMap((factor, k) => [k ? span(between) : null, grid(factor, `${i}${k}`)]), span(closing)))),
      make("p", { class: "number agree", text: sum }));
  }

  const places = (of) => new Map([...of.querySelectorAll("[data-key]")].map((node) => [node.dataset.key, [node, node.getBoundingClientRect()]]));

  function go(to) {
    if (to < 0 || to > last || to === now) return;
    const from = articles[now], onto = articles[to];
    now = to;
    stage.getAnimations({ subtree: true }).forEach((move) => move.cancel());
    show();
    if (calm.matches) return;
    const before = places(from), after = places(onto), how = { duration: TIME, easing: "ease-in-out" };
    const twin = (all, key) => all.get(key) || [...all].filter(([other]) => symbol(other) === symbol(key)).map(([, place]) => place)[0];
    const shift = (a, b) => `translate(${a.left - b.left}px, ${a.top - b.top}px)`;
    for (const [key, [node, box]] of after) {                // each moves to its place; a copy begins at its original
      const old = twin(before, key);
      node.animate(old ? [{ transform: shift(old[1], box) }, { transform: "none" }] : [{ opacity: 0 }, { opacity: 0, offset: 0.5 }, { opacity: 1 }], how);
    }
    for (const [key, [node, box]] of before) if (!after.has(key)) {
      const other = key.includes(" ") ? null : twin(after, key);           // terms join; arrays fade
      node.animate([{ visibility: "visible", opacity: 1 }, { visibility: "visible", opacity: 0, transform: other ? shift(other[1], box) : "none" }], { ...how, duration: other ? TIME : TIME / 2 });
    }
  }

  function show() {
    articles.forEach((one, i) => one.classList.toggle("now", i === now));
    count.textContent = `step ${now + 1} of ${steps.length}`;
    spoken.textContent = `Step ${now + 1} of ${steps.length}. ${steps[now].says}`;
    stage.setAttribute("aria-label", `${title}, step ${now + 1} of ${steps.length}`);
    back.disabled = now === 0;
    next.disabled = now === last;
  }

  // One font size for all steps, in which the longest line fits.
  function fit() {
    const boxes = articles.map((one) => one.querySelector(".formula"));
    boxes.forEach((box) => { box.style.fontSize = ""; });
    const share = Math.min(...boxes.flatMap((box) => [...box.children].map((line) => box.clientWidth / line.getBoundingClientRect().width)));
    if (share < 1) boxes.forEach((box) => { box.style.fontSize = `${1.88 * share}rem`; });
  }

  function paint() {
    for (const [cell, value] of cells) {
      const rgb = shade(value);
      cell.style.background = css(rgb);
      cell.style.color = inkOn(rgb);
    }
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.key === " " && event.target.closest("button"))) return;
    const where = { ArrowRight: now + 1, " ": now + 1, ArrowLeft: now - 1, Home: 0, End: last }[event.key];
    if (where === undefined) return;
    go(where);
    event.preventDefault();
  });
  onTheme(paint);
  paint();
  show();
  onWidth(stage, fit);
}

open(derivation);
