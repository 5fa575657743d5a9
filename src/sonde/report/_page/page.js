"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("specs");
  const themes = read("themes");
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const printing = window.matchMedia("print");
  const mode = () => (printing.matches ? "light" : root.dataset.theme || (system.matches ? "dark" : "light"));

  const places = [...document.querySelectorAll("[data-chart]")];
  const drawn = new WeakMap();
  let shown = "";

  const draw = (place) => {
    const current = mode();
    if (drawn.get(place) === current || !window.vegaEmbed) return Promise.resolve();
    drawn.set(place, current);
    const options = { mode: "vega-lite", actions: false, renderer: "svg", logLevel: 1, config: themes[current] };
    return window.vegaEmbed(place, specs[place.dataset.chart], options);
  };
  // One after the other with a pause between, so that a long page can be read at once; all are there for print.
  const drawAll = async () => {
    for (const place of places) {
      await draw(place);
      await new Promise((resolve) => setTimeout(resolve));
    }
  };

  const button = document.getElementById("theme");
  const retheme = () => {
    const current = mode();
    button.textContent = current === "dark" ? "Light" : "Dark";
    if (shown !== current) drawAll();
    shown = current;
  };
  button.addEventListener("click", () => {
    root.dataset.theme = mode() === "dark" ? "light" : "dark";
    retheme();
  });
  system.addEventListener("change", retheme);
  printing.addEventListener("change", retheme);
  retheme();

  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((details) => { details.open = true; });
  });

  const order = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.order === undefined ? cell.textContent : Number(cell.dataset.order);
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en");
  document.querySelectorAll("table.sortable").forEach((table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) =>
      head.querySelector("button").addEventListener("click", () => {
        const first = head.classList.contains("num") ? "descending" : "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        const way = head.getAttribute("aria-sort") === first ? other : first;
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", way);
        const sign = way === "ascending" ? 1 : -1;
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => sign * compare(order(a, column), order(b, column)));
        table.tBodies[0].append(...rows);
      }),
    );
  });
})();
