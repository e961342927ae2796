// What scrolls sideways can be reached by keyboard, and nothing else gets a tab stop.
const reach = () => document.querySelectorAll("pre, .formula, .output, .table-wrapper").forEach((x) => {
  if (x.scrollWidth > x.clientWidth && getComputedStyle(x).overflowX !== "visible") x.tabIndex = 0; else x.removeAttribute("tabindex");
});
addEventListener("load", reach);
addEventListener("resize", reach);
addEventListener("toggle", reach, true);
