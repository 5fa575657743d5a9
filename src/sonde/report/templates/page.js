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

  // A chart about one model of several has that model's colour.
  window.sondeTheme = (theme, figure) => {
    const colour = theme.range.category[Number(figure.dataset.model || 0) % theme.range.category.length];
    const diverging = [colour, ...theme.range.diverging.slice(1)];
    const narrow = figure.clientWidth && figure.clientWidth < 400;
    const legend = narrow ? { ...theme.legend, columns: 1, labelLimit: figure.clientWidth - 110 } : theme.legend;
    const axisX = narrow ? { ...theme.axisX, titleAnchor: "end" } : theme.axisX;
    const interval = { ...theme.style.interval, color: colour };
    const whisker = { ...theme.style.whisker, color: colour };
    return {
      ...theme,
      legend,
      axisX,
      mark: { ...theme.mark, color: colour },
      range: { ...theme.range, diverging },
      style: { ...theme.style, interval, whisker },
    };
  };
  // What an address points at stays in place while the charts above it are drawn, until the reader moves on.
  const pointed = () => {
    try {
      return decodeURIComponent(location.hash.slice(1));
    } catch {
      return "";
    }
  };
  let goal = pointed();
  window.addEventListener("hashchange", () => { goal = pointed(); });
  ["wheel", "touchmove", "keydown", "pointerdown"].forEach((kind) =>
    window.addEventListener(kind, () => { goal = ""; }, { passive: true }),
  );
  // The library that draws takes time to read, so it is read after the report has been shown.
  const library = document.getElementById("runtime");
  const loadLibrary = () => {
    if (window.vegaEmbed || !library.textContent) return;
    const script = document.createElement("script");
    script.textContent = library.textContent;
    document.head.append(script);
  };
  const draw = (place) => {
    const current = mode();
    if (drawn.get(place) === current) return Promise.resolve();
    loadLibrary();
    if (!window.vegaEmbed) return Promise.resolve();
    drawn.set(place, current);
    const config = window.sondeTheme(themes[current], place.closest("figure"));
    const options = { mode: "vega-lite", ast: true, actions: false, renderer: "svg", logLevel: 1, config };
    return window.vegaEmbed(place, specs[place.dataset.chart], options).then(() => {
      // The place itself says what the picture is; its marks have nothing to add.
      place.querySelector("svg").setAttribute("aria-hidden", "true");
      if (goal) document.getElementById(goal)?.scrollIntoView({ behavior: "instant" });
    });
  };
  // What comes near is drawn first; the rest one by one while nothing else is to do, so that all are there for
  // print and search.
  const near = new IntersectionObserver((entries) => {
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target));
  }, { rootMargin: "400px 0px" });
  const idle = (work) => {
    if (window.requestIdleCallback) window.requestIdleCallback(work, { timeout: 100 });
    else setTimeout(work, 20);
  };
  let drawing = false;
  const drawAll = async () => {
    if (drawing) return;
    drawing = true;
    const visible = (place) => {
      const box = place.getBoundingClientRect();
      return box.bottom > -400 && box.top < window.innerHeight + 400;
    };
    places.filter(visible).forEach(draw);
    for (const place of places) {
      await new Promise((resolve) => idle(resolve));
      await draw(place);
    }
    drawing = false;
    if (places.some((place) => drawn.get(place) !== mode())) drawAll();
  };

  const button = document.getElementById("theme");
  const retheme = () => {
    const current = mode();
    button.textContent = current === "dark" ? "Light" : "Dark";
    if (shown && shown !== current) drawAll();
    shown = current;
  };
  button.addEventListener("click", () => {
    root.dataset.theme = mode() === "dark" ? "light" : "dark";
    retheme();
  });
  system.addEventListener("change", retheme);
  printing.addEventListener("change", retheme);
  retheme();
  window.addEventListener("load", () => setTimeout(() => {
    places.forEach((place) => near.observe(place));
    drawAll();
  }));

  // Short tables are printed; long ones stay closed, and their file has them.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("main details:not([open]):not(.save)")].filter(
      (details) => details.querySelectorAll("tr").length <= 40,
    );
    opened.forEach((details) => { details.open = true; });
  });
  window.addEventListener("afterprint", () => opened.forEach((details) => { details.open = false; }));

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
