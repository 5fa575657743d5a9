// The syntax tree as nested folds, built when it is opened.
const explorerTree = (box, { text, slice, spent, highlight }) => {
  const { make, fixed } = explorerWords;
  const tree = box.querySelector(".ex-tree");
  const nodes = box.querySelector(".ex-nodes");
  let rows = [];
  const draw = (item, at) => {
    rows = [];
    tree.hidden = !item.nodes.length;
    if (!tree.open || !item.nodes.length) {
      nodes.replaceChildren();
      return;
    }
    const around = [{ depth: -1, element: nodes }];
    nodes.replaceChildren();
    for (let index = 0; index < item.nodes.length; index += 4) {
      const [depth, kind, start, end] = item.nodes.slice(index, index + 4);
      while (around[around.length - 1].depth >= depth) around.pop();
      const parent = around[around.length - 1].element;
      const inner = index + 4 < item.nodes.length && item.nodes[index + 4] > depth;
      const line = make(inner ? "summary" : "div", "ex-node", text(kind));
      line.tabIndex = 0;
      const bits = spent(start, end);
      if (bits !== null) line.append(make("em", "", fixed(bits, 1)));
      if (!inner) line.append(make("i", "", ` ${slice(start, Math.min(end, start + 24))}`));
      let element = line;
      if (inner) {
        element = make("details", "");
        element.open = depth < 3;
        element.append(line);
      }
      parent.append(element);
      around.push({ depth, element });
      const entry = { start, end, line, element, depth };
      rows.push(entry);
      for (const kind of ["mouseenter", "focus"]) line.addEventListener(kind, () => highlight(entry));
      for (const kind of ["mouseleave", "blur"]) line.addEventListener(kind, () => highlight(null));
    }
    follow(at);
  };
  const follow = (at) => {
    let deepest = null;
    for (const entry of rows) {
      const holds = at !== undefined && at >= entry.start && at < entry.end;
      entry.line.classList.toggle("holds", holds);
      if (holds && (!deepest || entry.depth > deepest.depth)) deepest = entry;
    }
    if (!deepest) return;
    for (let element = deepest.line.closest("details"); element && element !== tree; element = element.parentElement.closest("details")) element.open = true;
    nodes.scrollTop += deepest.line.getBoundingClientRect().top - nodes.getBoundingClientRect().top - nodes.clientHeight / 2;
  };
  return { draw, follow };
};
