(() => {
  const box = document.querySelector(".explorer");
  if (!box) return;
  const data = JSON.parse(document.getElementById(box.dataset.source).textContent);
  const part = (name) => box.querySelector(name);
  const [main, detail, list] = [".ex-code", ".ex-detail", ".ex-items"].map(part);
  const [search, colours, models, besides] = [".ex-search input", ".ex-colour", ".ex-model", ".ex-beside"].map(part);
  const { START, END, combine, bySubwords, byTokens, covers, into, largest, paint, paintDifference, pairAmounts } = explorerCells;
  const { make, fixed, visible } = explorerWords;
  const STEPS = 9;
  const text = (index) => data.strings[index];
  const label = (slug) => data.models.find((model) => model.slug === slug)?.label ?? slug;
  const slice = (start, end, most = 60) => {
    const found = Array.from(item.text).slice(start, end);
    return `${visible(found.slice(0, most).join("")) || "–"}${found.length > most ? "…" : ""}`;
  };
  const told = explorerTold(text, slice);
  const tree = explorerTree(box, {
    text,
    slice,
    // A blank before a word belongs to its subword and to no node of the word.
    spent: (start, end) => {
      const [one] = data.findings;
      const inside = (each) => each[END] > start && each[END] <= end;
      return one.kind === "amount" ? combine(rowsOf(one, model).filter(inside), one.at[one.colourings[0].column], "sum") : null;
    },
    highlight: (entry) => {
      const inside = (cell) => Boolean(entry) && cell.start < entry.end && cell.end > entry.start;
      panes.forEach((one) => one.cells.forEach((cell) => cell.element.classList.toggle("node", inside(cell))));
    },
  });

  data.findings.forEach((one) => {
    one.at = Object.fromEntries(one.columns.map((name, index) => [name, index + 2]));
  });
  // Ways to colour: numbers as they are named, answers and links by what they are about.
  const ways = data.findings.flatMap((one) => {
    if (one.kind === "amount") {
      return one.colourings.map((colouring) => ({ ...colouring, one, kind: one.kind, column: one.at[colouring.column] }));
    }
    const all = { one, kind: one.kind, label: `all ${one.group}s`, group: null };
    return [...(one.groups.length > 1 ? [all] : []), ...one.groups.map((group) => ({ ...all, label: group, group }))];
  });
  // Of a model that answered of whole functions alone, no token has a colour.
  const plain = { one: data.findings[0], kind: "whole", label: "nothing", group: null };

  let place = data.opened;
  let item = data.items[place];
  let way = plain;
  let model = (data.models.find((each) => data.findings[0].rows[each.slug]) ?? data.models[0]).slug;
  let beside = "";
  let panes = [];
  let current = -1;

  const rowsOf = (one, slug) => one.rows[slug]?.[place] ?? [];
  const rows = (slug) => {
    const found = rowsOf(way.one, slug);
    return way.group ? found.filter((row) => text(row[way.one.at.group]) === way.group) : found;
  };
  const fill = (element, content) => {
    content.split("\n").forEach((line, index) => {
      if (index) {
        element.append(make("span", "nl"));
        element.append("\n");
      }
      element.append(line);
    });
  };
  const other = () => beside.slice(beside.indexOf(":") + 1);
  const comparable = (slug) => {
    if (way.kind === "whole") return "each was asked of whole functions alone";
    if (way.kind === "amount" && !way.differs) return `a difference of ${way.label.toLowerCase()} means nothing`;
    const [mine, its] = [model, slug].map((one) => way.one.alike[one] ?? "");
    if (!way.one.rows[slug]) return `${label(slug)} has none of it`;
    return mine === its ? "" : `${label(model)} reads ${mine} and ${label(slug)} ${its}`;
  };

  // Code tokens with what both models have there.
  const subtracted = (slug, difference) => {
    const cells = byTokens(Array.from(item.text).length, item.tokens);
    into(cells, rows(slug));
    const mine = cells.map((cell) => cell.rows);
    cells.forEach((cell) => { cell.rows = []; });
    into(cells, rows(difference));
    cells.forEach((cell, index) => { [cell.rows, cell.others] = [mine[index], cell.rows]; });
    if (way.kind === "amount") pairAmounts(cells, way, [slug, difference].map((one) => way.one.units[one]?.[place] ?? []));
    return cells;
  };

  const pane = (element, slug, difference) => {
    const characters = Array.from(item.text);
    const found = rows(slug);
    let cells;
    const subtract = difference && !comparable(difference);
    if (subtract) {
      cells = subtracted(slug, difference);
    } else if (way.kind === "amount") {
      cells = difference ? byTokens(characters.length, item.tokens) : bySubwords(characters.length, found);
    } else {
      cells = byTokens(characters.length, item.tokens);
      found.forEach((row) => cells.filter((cell) => !cell.gap && covers(row, cell)).forEach((cell) => cell.rows.push(row)));
    }
    const fragment = document.createDocumentFragment();
    const kept = [];
    for (const cell of cells) {
      const content = characters.slice(cell.start, cell.end).join("");
      const named = !cell.gap && (way.kind !== "amount" || cell.rows.length || difference);
      if (!named) {
        fragment.append(make("span", "unscored", content));
        continue;
      }
      const classes = ["t"];
      if (subtract) paintDifference(cell, classes, way);
      else if (cell.rows.length && !difference) paint(cell, classes, way, text);
      const element = make("span", classes.join(" "));
      if (cell.share) element.style.background = `color-mix(in srgb, var(--heat-6) ${cell.share}%, transparent)`;
      fill(element, content);
      element.dataset.cell = kept.length;
      kept.push({ ...cell, content, element });
      fragment.append(element);
    }
    if (item.cut) fragment.append(make("span", "ex-cut", `\n… ${item.cut.toLocaleString("en")} more characters are not on this page`));
    element.replaceChildren(fragment);
    element.scrollTop = 0;
    return { element, cells: kept, slug, difference: subtract ? difference : "" };
  };

  const legend = () => {
    const parts = [];
    const key = (className, content) => make("span", className, content);
    if (way.kind === "amount") {
      parts.push(key("ex-unit", way.unit), ...["0", ...way.edges.map(String)].map((edge, index) => key(`h${index}`, index === STEPS - 1 ? `${edge}+` : edge)));
      parts.push(key("ex-key merged", "merged"), key("ex-key blank", "spaces"));
    } else if (way.kind !== "whole") parts.push(key("ex-key right", way.kind === "link" ? "found" : "right"), key("ex-key wrong", way.kind === "link" ? "missed" : "wrong"), key("ex-key mixed", "some of each"));
    if (way.kind === "link") parts.push(key("ex-key picked", "attended to most"), key("ex-key expected", "looked for"));
    if (panes.some((one) => one.difference)) {
      const [mine, its] = [label(model), label(other())];
      const words = way.kind === "amount" ? [`fewer bits: ${mine}`, `fewer bits: ${its}`] : [`only ${mine} is right`, `only ${its} is right`];
      parts.push(key("ex-key less3", words[0]), key("ex-key more3", words[1]));
    }
    part(".ex-legend").replaceChildren(...parts);
  };

  // Where two models differ most in this function, side by side.
  const drawWorst = () => {
    const worst = part(".ex-worst");
    worst?.replaceChildren();
    if (!beside || way.kind !== "amount" || comparable(other())) return;
    const names = [label(model), label(other())];
    largest(subtracted(model, other())).forEach((cells, side) => {
      if (!cells.length) return;
      const table = make("table");
      table.append(make("caption", "", `${names[side]} expects these more`));
      const head = make("tr");
      head.append(...["Code token", ...names.map((name) => `${name}, ${way.unit}`), "Difference"].map((name, index) => {
        const heading = make("th", index ? "num" : "", name);
        heading.scope = "col";
        return heading;
      }));
      table.append(head);
      for (const cell of cells) {
        const row = make("tr");
        const button = make("button", "", slice(cell.start, cell.end, 24));
        button.type = "button";
        button.addEventListener("click", () => {
          // A subword may begin before the code token, so the pane that shows code tokens comes first.
          const pane = panes.find((one) => one.difference) ?? panes[0];
          select(pane.cells.findIndex((each) => cell.start >= each.start && cell.start < each.end), true, pane);
        });
        const first = make("td");
        first.append(button);
        row.append(first, ...cell.amounts.map((bits) => make("td", "num", fixed(bits))), make("td", "num", `${cell.difference > 0 ? "+" : ""}${fixed(cell.difference)}`));
        table.append(row);
      }
      worst.append(table);
    });
  };

  const show = () => {
    const at = panes[0]?.cells[current]?.start;
    part(".ex-panes").replaceChildren(main);
    panes = [pane(main, model, "")];
    let refusal = "";
    if (beside) {
      const second = make("pre", "ex-code");
      second.tabIndex = 0;
      second.setAttribute("role", "group");
      const difference = beside.startsWith("difference:");
      refusal = difference ? comparable(other()) : "";
      second.setAttribute("aria-label", difference ? `Difference, ${label(model)} less ${label(other())}` : `Code as ${label(other())} reads it`);
      part(".ex-panes").append(second);
      panes.push(difference ? pane(second, model, other()) : pane(second, other(), ""));
      listen(second);
      second.prepend(make("span", "ex-title", refusal ? `No difference: ${refusal}.\n` : difference ? `${way.kind === "amount" ? `${label(model)} less ${label(other())}` : `Where ${label(model)} and ${label(other())} differ`}\n` : `${label(other())}\n`));
      main.prepend(make("span", "ex-title", `${label(model)}\n`));
    }
    part(".ex-panes").classList.toggle("two", panes.length > 1);
    current = -1;
    part(".ex-name").textContent = item.name;
    const rate = summary(place);
    part(".ex-path").textContent = [item.path, rate === null ? "" : `${fixed(rate)} ${data.summary}`, item.why ? `chosen: ${item.why}` : ""].filter(Boolean).join(" · ");
    legend();
    drawWorst();
    detail.replaceChildren(make("p", "ex-hint", "Point at a token to see what was found there."), ...wholes());
    drawTree();
    const cells = panes[0].cells;
    const value = (cell) => (way.kind === "amount" ? combine(cell.rows, way.column, way.combined) ?? 0 : cell.rows.length);
    const kept = cells.findIndex((cell) => at !== undefined && at >= cell.start && at < cell.end);
    const hardest = cells.reduce((best, cell, index) => (value(cell) > value(cells[best]) ? index : best), 0);
    if (cells.length) select(kept >= 0 ? kept : hardest, false);
  };

  const summary = (index) => {
    const held = data.findings.map((one) => one.summaries[model]?.[index]).find((value) => value !== null && value !== undefined);
    return held === undefined ? null : held;
  };

  const wholes = () => data.findings.flatMap((one) => told.whole(one, one.whole[model]?.[place] ?? [], way === plain));
  const drawTree = () => tree.draw(item, panes[0]?.cells[current]?.start);

  const mark = (pane, found) => {
    const { one } = way;
    pane.cells.forEach((cell) => {
      cell.element.classList.remove("picked", "expected");
      if (cell.warm) cell.element.style.background = "";
      cell.warm = false;
    });
    if (way.kind !== "link") return;
    const within = (cell, each, name) => cell.start < each[one.at[`${name}_end`]] && cell.end > each[one.at[`${name}_start`]];
    for (const cell of pane.cells) {
      for (const name of ["expected", "picked"]) if (found.some((each) => within(cell, each, name))) cell.element.classList.add(name);
    }
    // The whole row of attention is there for few functions, and is of one head.
    const head = way.group && rows(pane.slug)[0]?.[one.at.by];
    const table = head === undefined || head === null ? undefined : one.weights[pane.slug]?.[place]?.[text(head)];
    const here = pane.cells[pane.current];
    const line = here && table?.find(([start]) => start >= here.start && start < here.end);
    if (!line || pane.difference) return;
    for (const [start, end, share] of line[1]) {
      pane.cells.filter((cell) => cell.start < end && cell.end > start).forEach((cell) => {
        cell.warm = true;
        cell.element.style.background = `color-mix(in srgb, var(--accent) ${Math.min(90, Math.round(share))}%, transparent)`;
      });
    }
    return line[1];
  };

  const select = (index, scroll, from = panes[0]) => {
    const cell = from.cells[index];
    if (!cell || (from === panes[0] && index === current && !scroll)) return;
    const at = cell.start;
    const chosen = [];
    for (const one of panes) {
      one.cells.forEach((each) => each.element.classList.remove("on"));
      const mine = one === from ? index : one.cells.findIndex((each) => at >= each.start && at < each.end);
      if (one === panes[0]) current = mine;
      one.current = mine;
      one.cells[mine]?.element.classList.add("on");
      if (one.cells[mine]) chosen.push([one, one.cells[mine]]);
    }
    if (scroll) cell.element.scrollIntoView({ block: "nearest", inline: "nearest" });
    detail.replaceChildren(make("div", "tok", visible(cell.content) || "–"));
    for (const [one, each] of chosen) {
      if (panes.length > 1 && !one.difference) detail.append(make("h3", "", label(one.slug)));
      if (one.difference) {
        if (each.difference !== undefined) detail.append(make("p", "big", `${each.difference > 0 ? "+" : ""}${fixed(each.difference)} ${way.unit ?? ""}`), make("p", "ex-hint", `${label(one.slug)} less ${label(one.difference)}, over this code token`));
        continue;
      }
      // What the colour is about is told first.
      for (const finding of [way.one, ...data.findings.filter((each) => each !== way.one)]) {
        const found = finding === way.one && finding.kind === "amount" ? each.rows : rowsOf(finding, one.slug).filter((line) => covers(line, each) || (line[START] === line[END] && line[START] === each.start));
        if (!found.length) continue;
        if (data.findings.length > 1) detail.append(make("h4", "ex-lens", finding.label));
        detail.append(...told[finding.kind](finding, found));
      }
      const line = mark(one, way.kind === "link" ? each.rows : []);
      if (line?.length) {
        detail.append(make("h4", "ex-lens", "Attention from here, by the head of this relation"));
        for (const [start, end, share] of line) {
          const bar = make("div", "alt");
          bar.style.setProperty("--share", `${share}%`);
          bar.append(make("span", "", slice(start, end)), make("span", "", `${fixed(share, 1)} %`));
          detail.append(bar);
        }
      }
    }
    detail.append(...wholes());
    tree.follow(at);
  };

  const pick = (index) => {
    place = index;
    item = data.items[place];
    current = -1;
    panes = [];
    list.querySelectorAll("button").forEach((each) => each.setAttribute("aria-current", String(Number(each.dataset.item) === place)));
    show();
  };
  const fillList = () => {
    const wanted = search.value.trim().toLowerCase();
    const found = data.items.flatMap((each, index) => {
      if (wanted && !`${each.name} ${each.path}`.toLowerCase().includes(wanted)) return [];
      const rate = summary(index);
      const button = make("button");
      button.type = "button";
      button.dataset.item = index;
      button.setAttribute("aria-current", String(index === place));
      button.title = `${each.name}\n${each.path}`;
      button.append(make("b", "", each.name), make("em", "", rate === null ? "" : fixed(rate)), make("i", "", `${each.why} · ${each.path}`));
      button.addEventListener("click", () => pick(index));
      const entry = make("li");
      entry.append(button);
      return [entry];
    });
    list.replaceChildren(...(found.length ? found : [make("li", "ex-none", "No function has that in its name or path.")]));
  };
  const fillColours = () => {
    const groups = new Map();
    ways.forEach((each, index) => {
      // Whoever reads nothing of it has nothing to show.
      if (!each.one.rows[model]) return;
      if (!groups.has(each.one.label)) groups.set(each.one.label, []);
      const option = make("option", "", each.kind === "amount" ? each.label : `${each.one.label}: ${each.label}`);
      option.value = String(index);
      option.selected = each === way;
      groups.get(each.one.label).push(option);
    });
    colours.replaceChildren(...[...groups].map(([name, options]) => {
      const group = make("optgroup");
      group.label = name;
      group.append(...options);
      return group;
    }));
    way = groups.size ? ways[Number(colours.value)] : plain;
    colours.closest("label").hidden = !groups.size;
    part(".ex-bar").hidden = !groups.size && !models;
  };
  const fillBeside = () => {
    if (!besides) return;
    const others = data.models.filter((each) => each.slug !== model);
    const options = [["", "nothing"], ...others.map((each) => [`model:${each.slug}`, each.label]), ...others.map((each) => [`difference:${each.slug}`, `difference from ${each.label}`])];
    if (!options.some(([value]) => value === beside)) beside = "";
    besides.replaceChildren(...options.map(([value, name]) => {
      const option = make("option", "", name);
      option.value = value;
      option.selected = value === beside;
      return option;
    }));
  };
  const turn = (control) => {
    if (!control?.options.length) return;
    control.selectedIndex = (control.selectedIndex + 1) % control.options.length;
    control.dispatchEvent(new Event("change"));
  };

  const listen = (element) => {
    const pointed = (event) => {
      const target = event.target.closest(".t");
      if (target) select(Number(target.dataset.cell), false, panes.find((one) => one.element === element));
    };
    element.addEventListener("mouseover", pointed);
    element.addEventListener("click", (event) => {
      pointed(event);
      const cell = panes[0].cells[current];
      if (cell) history.replaceState(null, "", `#token=${item.id}:${cell.start}`);
    });
    element.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const here = panes.find((one) => one.element === element);
      const { cells } = here;
      // Beside a token of the first code there may be none here.
      const begin = Math.max(0, here.current);
      const top = (index) => cells[index].element.offsetTop;
      const line = (step) => {
        let index = begin;
        while (cells[index + step] && top(index + step) === top(begin)) index += step;
        return index + step;
      };
      const moves = {
        ArrowRight: () => here.current + 1,
        ArrowLeft: () => here.current - 1,
        ArrowDown: () => line(1),
        ArrowUp: () => line(-1),
        Home: () => 0,
        End: () => cells.length - 1,
      };
      const does = {
        c: () => turn(colours),
        m: () => turn(models),
        b: () => turn(besides),
        n: () => pick((place + 1) % data.items.length),
        p: () => pick((place + data.items.length - 1) % data.items.length),
        t: () => { part(".ex-tree").open = !part(".ex-tree").open; },
      };
      if (does[event.key]) {
        event.preventDefault();
        does[event.key]();
        return;
      }
      if (!moves[event.key] || !cells.length) return;
      event.preventDefault();
      select(moves[event.key](), true, here);
    });
  };
  listen(main);
  search.addEventListener("input", fillList);
  part(".ex-tree").addEventListener("toggle", drawTree);
  colours.addEventListener("change", () => {
    way = ways[Number(colours.value)];
    show();
  });
  models?.addEventListener("change", () => {
    model = models.value;
    fillColours();
    fillBeside();
    fillList();
    show();
  });
  besides?.addEventListener("change", () => {
    beside = besides.value;
    show();
  });

  // An address that names a token opens on it.
  const named = /^#token=([^:]+):(\d+)$/.exec(location.hash);
  const asked = named ? data.items.findIndex((each) => encodeURIComponent(each.id) === named[1] || each.id === named[1]) : -1;
  if (asked >= 0) {
    place = asked;
    item = data.items[place];
  }
  if (models) models.value = model;
  fillColours();
  fillBeside();
  fillList();
  list.scrollTop = (list.querySelector('[aria-current="true"]')?.offsetTop ?? 0) - list.offsetTop - 40;
  show();
  if (asked >= 0) {
    const index = panes[0].cells.findIndex((cell) => Number(named[2]) >= cell.start && Number(named[2]) < cell.end);
    box.scrollIntoView({ behavior: "instant" });
    select(index, true);
  }
})();
