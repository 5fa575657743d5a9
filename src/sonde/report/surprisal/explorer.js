(() => {
  const box = document.querySelector(".explorer");
  if (!box) return;
  const data = JSON.parse(document.getElementById(box.dataset.source).textContent);
  const part = (name) => box.querySelector(name);
  const code = part(".ex-code");
  const detail = part(".ex-detail");
  const list = part(".ex-items");
  const search = part(".ex-search input");
  const [START, END, BITS, RANK, ENTROPY, CONTEXT, MERGED, SUBWORD, TAG, KIND, CONSTRUCT, TOP] = Array(12).keys();
  let item = data.items[0];
  let model = data.models[0].slug;
  let cells = [];
  let current = -1;

  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const step = (bits) => data.edges.filter((edge) => bits >= edge).length;
  const fixed = (value, digits) => (value === null ? "–" : value.toFixed(digits));
  const text = (index) => data.strings[index];

  // Byte-level pieces inside one character share its span: they are one cell, with all pieces listed.
  // Spans count code points, strings here count UTF-16 units, hence the array of characters.
  const group = (characters, pieces) => {
    const found = [];
    let reached = 0;
    for (const piece of pieces) {
      const last = found[found.length - 1];
      const end = Math.min(piece[END], characters.length);
      if (last && piece[START] < last.end) {
        last.pieces.push(piece);
        last.end = Math.max(last.end, end);
      } else if (last && end <= piece[START]) {
        last.pieces.push(piece);
      } else {
        if (piece[START] > reached) found.push({ start: reached, end: piece[START], pieces: [] });
        found.push({ start: piece[START], end, pieces: [piece] });
      }
      reached = found[found.length - 1].end;
    }
    if (reached < characters.length) found.push({ start: reached, end: characters.length, pieces: [] });
    return found;
  };
  const total = (cell) => cell.pieces.reduce((sum, piece) => sum + (piece[BITS] || 0), 0);

  const fill = (element, content) => {
    content.split("\n").forEach((line, index) => {
      if (index) {
        element.append(make("span", "nl"));
        element.append("\n");
      }
      element.append(line);
    });
  };

  const show = () => {
    const characters = Array.from(item.text);
    const pieces = item.pieces[model] || [];
    cells = [];
    current = -1;
    const fragment = document.createDocumentFragment();
    for (const cell of group(characters, pieces)) {
      const content = characters.slice(cell.start, cell.end).join("");
      if (!cell.pieces.length) {
        fragment.append(make("span", "unscored", content));
        continue;
      }
      const element = make("span", "t");
      const first = cell.pieces[0];
      const blank = text(first[KIND]) === "layout";
      if (blank) {
        element.classList.add("blank");
        const share = 6 + 6 * step(total(cell));
        element.style.background = `color-mix(in srgb, var(--heat-6) ${share}%, transparent)`;
      } else {
        element.classList.add(`h${step(total(cell))}`);
      }
      if (first[MERGED] > 1) element.classList.add("merged");
      fill(element, content);
      element.dataset.cell = cells.length;
      cells.push({ ...cell, content, element });
      fragment.append(element);
    }
    if (item.cut) fragment.append(make("span", "ex-cut", `\n… ${item.cut.toLocaleString("en")} more characters are not on this page`));
    code.replaceChildren(fragment);
    code.scrollTop = 0;
    part(".ex-name").textContent = item.name;
    const rate = item.rate[model];
    part(".ex-path").textContent = [item.path, rate === undefined ? "" : `${rate.toFixed(2)} bits per byte`, `chosen: ${item.why}`].filter(Boolean).join(" · ");
    detail.replaceChildren(make("p", "ex-hint", "Point at a token to see what the model expected."));
    const hardest = cells.reduce((best, cell, index) => (total(cell) > total(cells[best]) ? index : best), 0);
    if (cells.length) select(hardest, false);
  };

  const row = (name, value) => {
    const line = make("div");
    line.append(make("dt", "", name), make("dd", "", value));
    return line;
  };
  const describe = (piece) => {
    const wrap = make("div", "pieces");
    const facts = make("dl");
    facts.append(
      row("rank", piece[RANK] === null ? "–" : piece[RANK].toLocaleString("en")),
      row("entropy", `${fixed(piece[ENTROPY], 2)} bits`),
      row("tag", text(piece[TAG]) || "–"),
      row("kind", text(piece[KIND]) + (piece[MERGED] > 1 ? `, spans ${piece[MERGED]} tokens` : "")),
    );
    if (text(piece[CONSTRUCT])) facts.append(row("construct", text(piece[CONSTRUCT]).replaceAll("_", " ")));
    facts.append(row("context", `${(piece[CONTEXT] ?? 0).toLocaleString("en")} subwords before it`));
    wrap.append(facts);
    if (piece[TOP].length) wrap.append(make("h4", "", "What it expected"));
    for (let index = 0; index < piece[TOP].length; index += 2) {
      const share = (piece[TOP][index + 1] || 0) / 10;
      const name = text(piece[TOP][index]);
      const line = make("div", name === text(piece[SUBWORD]) && piece[RANK] === index / 2 + 1 ? "alt gold" : "alt");
      line.style.setProperty("--share", `${share}%`);
      line.append(make("span", "", name), make("span", "", share < 0.1 ? "<0.1 %" : `${share.toFixed(1)} %`));
      wrap.append(line);
    }
    return wrap;
  };

  const select = (index, scroll) => {
    if (index < 0 || index >= cells.length || index === current) return;
    if (cells[current]) cells[current].element.classList.remove("on");
    current = index;
    const cell = cells[index];
    cell.element.classList.add("on");
    if (scroll) cell.element.scrollIntoView({ block: "nearest", inline: "nearest" });
    const bits = total(cell);
    const big = make("p", "big", `${bits.toFixed(2)} bits`);
    const chance = 2 ** -bits;
    big.append(make("small", "", chance >= 0.001 ? `probability ${(100 * chance).toFixed(1)} %` : `1 in ${Math.round(1 / chance).toLocaleString("en")}`));
    const shown = cell.content.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣");
    detail.replaceChildren(make("div", "tok", shown || text(cell.pieces[0][SUBWORD])), big);
    if (cell.pieces.length > 1) detail.append(make("p", "ex-hint", `${cell.pieces.length} subwords inside, bits summed`));
    cell.pieces.forEach((piece) => {
      if (cell.pieces.length > 1) detail.append(make("h4", "", `${text(piece[SUBWORD])} · ${fixed(piece[BITS], 2)} bits`));
      detail.append(describe(piece));
    });
  };

  const pick = (chosen) => {
    item = chosen;
    list.querySelectorAll("button").forEach((each) => {
      each.setAttribute("aria-current", String(data.items[each.dataset.item] === item));
    });
    show();
  };
  const fillList = () => {
    const wanted = search.value.trim().toLowerCase();
    const rows = data.items.flatMap((each, index) => {
      if (wanted && !`${each.name} ${each.path}`.toLowerCase().includes(wanted)) return [];
      const rate = each.rate[model];
      const button = make("button");
      button.type = "button";
      button.dataset.item = index;
      button.setAttribute("aria-current", String(each === item));
      button.title = `${each.name}\n${each.path}`;
      button.append(make("b", "", each.name), make("em", "", rate === undefined ? "–" : rate.toFixed(2)), make("i", "", `${each.why} · ${each.path}`));
      button.addEventListener("click", () => pick(each));
      const entry = make("li");
      entry.append(button);
      return [entry];
    });
    list.replaceChildren(...(rows.length ? rows : [make("li", "ex-none", "No item has that in its name or path.")]));
  };

  code.addEventListener("mouseover", (event) => {
    const element = event.target.closest(".t");
    if (element) select(Number(element.dataset.cell), false);
  });
  code.addEventListener("click", (event) => {
    const element = event.target.closest(".t");
    if (element) select(Number(element.dataset.cell), false);
  });
  code.addEventListener("keydown", (event) => {
    const top = (index) => cells[index].element.offsetTop;
    const line = (way) => {
      let index = current;
      while (cells[index + way] && top(index + way) === top(current)) index += way;
      return index + way;
    };
    const moves = {
      ArrowRight: () => current + 1,
      ArrowLeft: () => current - 1,
      ArrowDown: () => line(1),
      ArrowUp: () => line(-1),
      Home: () => 0,
      End: () => cells.length - 1,
    };
    if (!moves[event.key] || !cells.length) return;
    event.preventDefault();
    select(moves[event.key](), true);
  });
  search.addEventListener("input", fillList);
  box.querySelectorAll("input[type=radio]").forEach((radio) =>
    radio.addEventListener("change", () => {
      model = radio.value;
      fillList();
      show();
    }),
  );
  fillList();
  show();
})();
