// Blocks that do not fit on a slide move to the next one, under the same heading. Blocks that are too wide or too high are shrunk.
const isBlock = (node) => node.tagName !== "ASIDE" && !/^H\d$/.test(node.tagName);
const blocks = (slide) => [...slide.children].filter(isBlock);
const high = (slide) => slide.scrollHeight > slide.clientHeight + 1;
function shrink(slide, spills) {
  for (const block of blocks(slide)) for (let size = 96; size > 48 && spills(block); size -= 4) block.style.zoom = `${size}%`;
}
// Move the last block of a slide, and its notes, to `rest`.
function move(slide, rest) {
  let moved = null;
  do rest.prepend(moved = slide.lastElementChild); while (!isBlock(moved));
}
const slides = [];
for (let slide of document.querySelectorAll("section")) {
  while (slide) {
    const right = slide.getBoundingClientRect().left + 1236.5;
    shrink(slide, (block) => block.getBoundingClientRect().right > right || block.scrollWidth > block.clientWidth + 1);
    const rest = slide.cloneNode(false), heights = new Map([...slide.children].map((node) => [node, node.offsetHeight]));
    while (high(slide) && blocks(slide).length > 1) move(slide, rest);
    const last = blocks(slide).at(-1), both = [slide.firstElementChild, last, ...blocks(rest).slice(0, 1)];
    const leads = last && (last.textContent.trim().endsWith(":") || last.matches("pre:has(> code)"));    // belongs to the next block
    if (both.length > 2 && blocks(slide).length > 1 && leads && both.reduce((sum, node) => sum + heights.get(node), 110) < 720) move(slide, rest);
    if (rest.childElementCount) {
      rest.prepend(slide.firstElementChild.cloneNode(true));
      slide.after(rest);
    }
    shrink(slide, () => high(slide));
    slides.push(slide);
    slide = rest.childElementCount ? rest : null;
  }
}
document.documentElement.classList.add("js");

// Keys and buttons. The slide's number is the fragment of the page's address.
const count = document.createElement("span"), nav = document.createElement("nav");
const step = (by) => go(Math.min(slides.length, Math.max(1, at() + by)));
const at = () => Math.min(slides.length, Number(location.hash.slice(1)) || 1);
const go = (number) => { location.hash = number; };
for (const [text, title, act] of [["‹", "back", () => step(-1)], ["›", "next", () => step(1)], ["notes", "the notes in a separate window (key n)", notes]]) {
  const button = document.createElement("button");
  Object.assign(button, { textContent: text, title, onclick: act });
  nav.append(button);
}
nav.append(count);
document.body.append(nav);

let beside = null;
function notes() {
  if (!beside || beside.closed) beside = window.open("", "", "width=640,height=560");
  if (beside) beside.document.body.style.cssText = "font: 18px/1.5 system-ui, sans-serif; margin: 1em";
  tell();
}
function tell() {
  if (!beside || beside.closed) return;
  const now = slides[at() - 1], page = beside.document;
  page.title = `Notes, ${at()} of ${slides.length}`;
  page.body.replaceChildren(...[now.firstElementChild, ...now.querySelectorAll("aside")].map((node) => {
    const copy = page.createElement("div");
    copy.append(...[...node.childNodes].map((child) => page.importNode(child, true)));
    return copy;
  }));
}
function draw() {
  const size = Math.min(innerWidth / 1280, innerHeight / 720);
  slides.forEach((slide, i) => {
    slide.classList.toggle("now", i === at() - 1);
    slide.style.transform = `translate(${(innerWidth - 1280 * size) / 2}px, ${(innerHeight - 720 * size) / 2}px) scale(${size})`;
  });
  count.textContent = `${at()} of ${slides.length}`;
  tell();
}
const KEYS = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowDown: 1, ArrowLeft: -1, PageUp: -1, ArrowUp: -1, Home: -1e9, End: 1e9 };
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "n") notes();
  else if (event.key in KEYS && !(event.key === " " && event.target.tagName === "BUTTON")) { event.preventDefault(); step(KEYS[event.key]); }
});
addEventListener("hashchange", draw);
addEventListener("resize", draw);
draw();
