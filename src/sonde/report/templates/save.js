// What each chart and table offers to take away; everything is made here, nothing is asked of a network.
(() => {
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const themes = JSON.parse(document.getElementById("themes").textContent);
  const papers = JSON.parse(document.getElementById("papers").textContent);

  const download = (name, type, content) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csv = (rows) => rows.map((row) => `${row.map(cell).join(",")}\n`).join("");

  // Every table of data in a specification, each once; layers that share their rows hold them each.
  const tables = (spec, found = new Map()) => {
    if (Array.isArray(spec)) spec.forEach((one) => tables(one, found));
    else if (spec && typeof spec === "object") {
      if (spec.data && Array.isArray(spec.data.values)) found.set(JSON.stringify(spec.data.values), spec.data.values);
      Object.entries(spec).forEach(([key, one]) => { if (key !== "data") tables(one, found); });
    }
    return [...found.values()];
  };
  const dataOf = (spec) => {
    const rows = tables(spec).flat();
    const columns = [...new Set(rows.flatMap(Object.keys))].filter((name) => !/^rank_\d+$/.test(name));
    return csv([columns, ...rows.map((row) => columns.map((name) => row[name]))]);
  };

  // A chart in light colours under its title, as `sonde figures` draws it.
  const svgOf = async (figure, name) => {
    const drawing = figure.querySelector("[data-drawing] svg");
    if (drawing) return drawing.outerHTML.replace(/var\(--[\w-]+, (#[0-9a-f]{6})\)/g, "$1");
    const place = document.createElement("div");
    const wide = figure.classList.contains("wide");
    const title = figure.querySelector("figcaption a").textContent;
    const spec = { ...specs[name], width: wide ? 760 : 460, title };
    const config = { ...window.sondeTheme(themes.light, figure), background: "#ffffff" };
    const options = { mode: "vega-lite", ast: true, actions: false, renderer: "svg", logLevel: 1, config };
    const { view } = await window.vegaEmbed(place, spec, options);
    const svg = await view.toSVG();
    view.finalize();
    return svg;
  };
  const sized = (svg) => {
    const found = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
    const box = (found.getAttribute("viewBox") || "").split(/[\s,]+/).map(Number);
    return [parseFloat(found.getAttribute("width")) || box[2], parseFloat(found.getAttribute("height")) || box[3]];
  };
  const pngOf = async (svg) => {
    const [width, height] = sized(svg);
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    const context = canvas.getContext("2d");
    context.fillStyle = "#ffffff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  };
  // A page of the chart's own size is printed; the browser writes it as a PDF of lines and letters.
  const print = (svg) => {
    const [width, height] = sized(svg);
    const sheet = document.createElement("div");
    sheet.id = "sheet";
    sheet.innerHTML = svg;
    const style = document.createElement("style");
    style.textContent = `@page { size: ${Math.ceil(width) + 20}px ${Math.ceil(height) + 20}px; margin: 10px; }`;
    document.head.append(style);
    document.body.append(sheet);
    window.addEventListener("afterprint", () => { sheet.remove(); style.remove(); }, { once: true });
    window.print();
  };
  const made = {
    csv: async (figure, name) => download(`${name}.csv`, "text/csv", dataOf(specs[name])),
    svg: async (figure, name) => download(`${name}.svg`, "image/svg+xml", await svgOf(figure, name)),
    png: async (figure, name) => download(`${name}.png`, "image/png", await pngOf(await svgOf(figure, name))),
    pdf: async (figure, name) => print(await svgOf(figure, name)),
    bib: async (figure) => {
      const lens = figure.closest("[data-lens]").dataset.lens;
      download(`${lens}.bib`, "text/x-bibtex", `${papers[lens] || papers[""]}\n`);
    },
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button && button.dataset.as) {
      const figure = button.closest("figure");
      made[button.dataset.as](figure, figure.id.replace(/^chart-/, ""));
      button.closest("details").open = false;
    }
    if (button && button.dataset.table) {
      const rows = [...button.closest("details").querySelectorAll("tr")];
      const name = (button.closest("section[id]") || { id: "table" }).id;
      download(`${name}.csv`, "text/csv", csv(rows.map((row) => [...row.cells].map((one) => one.textContent))));
    }
    document.querySelectorAll("details.save[open]").forEach((menu) => {
      if (!menu.contains(event.target)) menu.open = false;
    });
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && event.target.closest("details.save[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
  });
})();
