// The parts of a text that have a colour each, with what was found there.
const explorerCells = (() => {
  const START = 0;
  const END = 1;
  const step = (edges, value) => edges.filter((edge) => value >= edge).length;
  const combine = (found, column, how) => {
    const values = found.map((row) => row[column]).filter((value) => value !== null && value !== undefined);
    if (!values.length) return null;
    return how === "sum" ? values.reduce((sum, value) => sum + value, 0) : Math.max(...values);
  };

  // Byte-level pieces inside one character share its span: they are one cell, with all pieces listed.
  // Spans count code points, strings here count UTF-16 units, hence the array of characters.
  const bySubwords = (size, found) => {
    const cells = [];
    let reached = 0;
    for (const row of found) {
      const last = cells[cells.length - 1];
      const end = Math.min(row[END], size);
      if (last && row[START] < last.end) {
        last.rows.push(row);
        last.end = Math.max(last.end, end);
      } else if (last && end <= row[START]) {
        last.rows.push(row);
      } else {
        if (row[START] > reached) cells.push({ start: reached, end: row[START], rows: [] });
        cells.push({ start: row[START], end, rows: [row] });
      }
      reached = cells[cells.length - 1].end;
    }
    if (reached < size) cells.push({ start: reached, end: size, rows: [] });
    return cells;
  };
  const byTokens = (size, tokens) => {
    const cells = [];
    let reached = 0;
    for (let index = 0; index < tokens.length; index += 2) {
      const [start, end] = [tokens[index], tokens[index + 1]];
      if (start > reached) cells.push({ start: reached, end: start, rows: [], gap: true });
      cells.push({ start, end, rows: [] });
      reached = end;
    }
    if (reached < size) cells.push({ start: reached, end: size, rows: [], gap: true });
    return cells;
  };
  const covers = (row, cell) => row[START] < cell.end && row[END] > cell.start;
  // A subword counts with the token that it ends in.
  const into = (cells, found) => {
    const starts = cells.map((cell) => cell.start);
    for (const row of found) {
      let [low, high] = [0, starts.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (starts[middle] < Math.max(row[END], row[START] + 1)) low = middle + 1;
        else high = middle;
      }
      cells[low - 1]?.rows.push(row);
    }
  };
  // Differences of a token's bits at which the colour changes, on either side.
  const APART = [0.5, 2, 4];

  const paint = (cell, classes, way, text) => {
    const kind = way.kind;
    if (kind === "amount") {
      const value = combine(cell.rows, way.column, way.combined);
      const first = cell.rows[0];
      if (way.one.at.kind && text(first[way.one.at.kind]) === "layout") {
        classes.push("blank");
        cell.share = 6 + 6 * step(way.edges, value ?? 0);
      } else if (value !== null) classes.push(`h${step(way.edges, value)}`);
      if (way.one.at.merged && first[way.one.at.merged] > 1) classes.push("merged");
      return;
    }
    const hits = cell.rows.map((row) => row[way.one.at.hit]);
    classes.push(hits.every(Boolean) ? "right" : hits.some(Boolean) ? "mixed" : "wrong");
  };
  // What each code token costs under two models. Of texts cut alike, its subwords are added up. Else the costs are
  // those that do not depend on the cut: the exact ones, or without logits those of tokens that subwords end with.
  const pairAmounts = (cells, way, units) => {
    const alike = (mine, its) => mine.length === its.length && mine.every((row, index) => row[START] === its[index][START] && row[END] === its[index][END]);
    const recut = way.differs && units.every((rows) => rows.length) && !alike(...[0, 1].map((side) => cells.flatMap((cell) => (side ? cell.others : cell.rows))));
    const [EXACT, PIECES] = [2, 3];
    const cost = units.every((rows) => rows.some((row) => row[EXACT] !== null)) ? EXACT : PIECES;
    const [mine, its] = units.map((rows) => new Map(rows.map((row) => [row[START], row[cost]])));
    for (const cell of cells) {
      const both = recut ? [mine.get(cell.start) ?? null, its.get(cell.start) ?? null] : [cell.rows, cell.others].map((found) => combine(found, way.column, way.combined));
      if (cell.gap || both.includes(null)) continue;
      cell.amounts = both;
      cell.difference = both[0] - both[1];
    }
  };
  // At most so many code tokens in either direction, the largest differences first.
  const PLACES = 2;
  const largest = (cells) => {
    const found = cells.filter((cell) => cell.difference);
    const worst = (sign) => found.filter((cell) => cell.difference * sign > 0).sort((one, two) => (two.difference - one.difference) * sign || one.start - two.start).slice(0, PLACES);
    return [worst(-1), worst(1)];
  };
  const paintDifference = (cell, classes, way) => {
    if (way.kind === "amount") {
      if (cell.difference === undefined) return;
      const size = step(APART, Math.abs(cell.difference));
      classes.push(size ? `${cell.difference > 0 ? "more" : "less"}${size}` : "same");
      return;
    }
    if (!cell.rows.length || !cell.others.length) return;
    const [mine, other] = [cell.rows, cell.others].map((found) => found.every((row) => row[way.one.at.hit]));
    classes.push(mine === other ? (mine ? "right" : "wrong") : mine ? "less3" : "more3");
  };
  return { START, END, combine, bySubwords, byTokens, covers, into, largest, paint, paintDifference, pairAmounts };
})();
