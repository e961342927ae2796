// ---- Boards: a backward with one wrong line, and its gradients beside difference quotients; the reader chooses the line

const BOX = [48, 22], INDENT = 8;

const spaced = (line) => line.replaceAll(" ", "\u00a0");     // SVG would join several spaces

function board(data, root) {
  const { boards, command } = data, solved = boards.map(() => false), tried = boards.map(() => new Set());
  let now = 0;
  const verdict = make("p", { role: "status" }), picture = make("div", { class: "mirror" }), count = make("span", { class: "number" });
  const button = (text, action) => make("button", { type: "button", text, on: { click: action } });
  const back = button("Back", () => go(now - 1)), next = button("Next", () => go(now + 1));
  const save = button("Save as SVG", () => handOver(`board-${now + 1}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(picture.firstChild)));
  root.replaceChildren(make("h1", { text: data.title }), make("p", { class: "faint",
    text: "Each gradient is beside its difference quotients; the first gradient that differs is red. Which line is wrong? Choose it." }),
    make("div", { class: "controls", role: "group", "aria-label": "boards" }, back, next, count, save), verdict, picture,
    make("p", {}, "Check your own code with ", make("code", { text: command })));

  function go(to) {
    now = Math.max(0, Math.min(boards.length - 1, to));
    verdict.textContent = solved[now] ? boards[now].says : "";
    draw();
  }

  function pick(line) {
    if (solved[now]) return;
    const { guilty, says, code } = boards[now];
    solved[now] = line === guilty;
    tried[now].add(line);
    verdict.className = solved[now] ? "agree" : "differ";
    verdict.textContent = solved[now] ? says : `Not this one: ${code[line].trim().split("#")[0].trim()} is right.`;
    draw();
    const same = picture.querySelector(`[data-line="${line}"]`);
    if (same) same.focus();
  }

  function draw() {
    const { code, guilty, arrays, right } = boards[now], sheet = [], first = arrays.findIndex((array) => !array.agrees);
    const red = theme() === "dark" ? "#ff9a8a" : "#b3261e", green = theme() === "dark" ? "#7fd18b" : "#1b6e2c";
    let y = 18, width = 8 * Math.max(...code.map((line) => line.length)) + 40;
    sheet.push(vector("title", {}, data.title));
    code.forEach((line, i) => {
      const chosen = solved[now] && i === guilty, wrong = tried[now].has(i) && i !== guilty, choice = line.trim() && i > 0;
      const text = vector("text", { x: INDENT + 14, y, fill: chosen ? red : "currentColor", "font-weight": chosen ? "bold" : "normal", "fill-opacity": wrong ? 0.6 : 1 }, spaced(line));
      const row = vector("g", choice ? { role: "button", tabindex: 0, class: "choice", "data-line": i, "aria-label": `line ${i}: ${line.trim()}${wrong ? ", right" : chosen ? ", the guilty one" : ""}` } : {},
        vector("rect", { x: INDENT, y: y - 14, width: width - 16, height: 19, fill: "transparent" }), text);
      if (choice) {
        row.addEventListener("click", () => pick(i));
        row.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { pick(i); event.preventDefault(); } });
      }
      sheet.push(row);
      y += 19;
      if (chosen) {
        sheet.push(vector("text", { x: INDENT + 14, y, fill: green }, spaced(right)));
        y += 19;
      }
    });
    y += 14;
    const pair = Math.max(...arrays.map(({ shape }) => 2 * shape[1] * BOX[0] + 80));     // two pairs side by side, if they fit
    let tallest = 0, across = picture.clientWidth < pair + 390 ? 1 : 2;
    arrays.forEach((array, k) => {
      const { name, shape: [rows, columns], backward, quotient, agrees } = array, colour = colours([...backward, ...quotient].flatMap((x) => [x, -x]));
      const tone = k === first ? red : "currentColor", left = INDENT + (k % across) * Math.max(pair, 390), apart = Math.max(columns * BOX[0], 110) + 24;
      sheet.push(vector("text", { x: left, y: y + 12, fill: tone, "font-weight": "bold" }, `${name}${agrees ? "" : k === first ? ", the first that differs" : ", differs, too"}`));
      [["by the backward", backward], ["by difference quotients", quotient]].forEach(([title, values], side) => {
        const x0 = left + side * apart;
        sheet.push(vector("text", { x: x0, y: y + 28, "fill-opacity": 0.75, "font-size": 11 }, title));
        const grid = vector("g", { role: "img", "aria-label": `${name} ${title}: ${values.map((x) => said(x)).join(", ")}` });
        values.forEach((value, e) => {
          const x = x0 + (e % columns) * BOX[0], top = y + 34 + Math.floor(e / columns) * BOX[1], rgb = colour(value) || PALETTE[theme()].zero;
          grid.append(vector("rect", { x, y: top, width: BOX[0], height: BOX[1], fill: css(rgb), stroke: "#888888" }),
            vector("text", { x: x + BOX[0] - 4, y: top + 15, "text-anchor": "end", fill: inkOn(rgb) }, said(finite(value) ? Number(value.toFixed(2)) : value)));
        });
        if (k === first) grid.append(vector("rect", { x: x0, y: y + 34, width: columns * BOX[0], height: rows * BOX[1], fill: "none", stroke: red, "stroke-width": 3 }));
        sheet.push(grid);
        width = Math.max(width, x0 + Math.max(columns * BOX[0], 160) + 8);
      });
      tallest = Math.max(tallest, rows);
      if (k % across === across - 1 || k === arrays.length - 1) { y += 34 + tallest * BOX[1] + 18; tallest = 0; }
    });
    if (solved[now]) {
      sheet.push(vector("text", { x: INDENT, y: y + 4, fill: red, "font-weight": "bold" }, boards[now].says), vector("text", { x: INDENT, y: y + 24 }, command));
      width = Math.max(width, 7.4 * Math.max(boards[now].says.length, command.length) + 16);
      y += 32;
    }
    picture.replaceChildren(vector("svg", { viewBox: `0 0 ${width} ${y}`, width, height: y, "font-family": "ui-monospace, Menlo, Consolas, monospace", "font-size": 12, fill: "currentColor" }, ...sheet));
    count.textContent = `board ${now + 1} of ${boards.length}, ${solved.filter(Boolean).length} solved`;
    back.disabled = now === 0;
    next.disabled = now === boards.length - 1;
    save.disabled = !solved[now];
  }

  onTheme(draw);
  onWidth(picture, draw);
  go(0);
}

open(board);
