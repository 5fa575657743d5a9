// What was found at one place, in words and bars.
const explorerWords = (() => {
  const make = (tag, className, content) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (content !== undefined) element.textContent = content;
    return element;
  };
  const fixed = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));
  const visible = (content) => content.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣");
  return { make, fixed, visible };
})();

const explorerTold = (text, slice) => {
  const { make, fixed } = explorerWords;
  const { combine } = explorerCells;
  const SIDES = ["wrong", "right"];
  const short = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : fixed(value));
  const row = (name, value) => {
    const line = make("div");
    line.append(make("dt", "", name), make("dd", "", value));
    return line;
  };
  const amount = (one, found) => {
    const wrap = make("div", "pieces");
    const first = one.colourings[0];
    const bits = combine(found, one.at[first.column], first.combined);
    const big = make("p", "big", `${fixed(bits)} ${first.unit}`);
    const chance = 2 ** -bits;
    if (first.unit === "bits" && bits !== null) big.append(make("small", "", chance >= 0.001 ? `probability ${(100 * chance).toFixed(1)} %` : `1 in ${Math.round(1 / chance).toLocaleString("en")}`));
    wrap.append(big);
    if (found.length > 1) wrap.append(make("p", "ex-hint", `${found.length} subwords inside, ${first.unit} summed`));
    for (const each of found) {
      if (found.length > 1) wrap.append(make("h4", "", `${text(each[one.at.subword])} · ${fixed(each[one.at[first.column]])} ${first.unit}`));
      const facts = make("dl");
      for (const [name, column, unit] of one.facts) {
        const value = each[one.at[column]];
        const said = one.texts.includes(column) ? text(value) : value === null ? "" : short(value);
        if (said !== "") facts.append(row(name, [said, unit].filter(Boolean).join(" ")));
      }
      if (one.at.merged && each[one.at.merged] > 1) facts.append(row("spans", `${each[one.at.merged]} tokens`));
      wrap.append(facts, ...alternatives(each[one.at.top] ?? [], text(each[one.at.subword]), each[one.at.rank], "What it expected"));
    }
    return [wrap];
  };
  const alternatives = (top, right, rank, heading) => {
    const lines = top.length ? [make("h4", "", heading)] : [];
    for (let index = 0; index < top.length; index += 2) {
      const known = top[index + 1] !== null;
      const share = (top[index + 1] || 0) / 10;
      const name = text(top[index]);
      const line = make("div", name === right && rank === index / 2 + 1 ? "alt gold" : "alt");
      line.style.setProperty("--share", `${share}%`);
      line.append(make("span", "", name), make("span", "", !known ? "" : share < 0.1 ? "<0.1 %" : `${share.toFixed(1)} %`));
      lines.push(line);
    }
    return lines;
  };
  const answer = (one, found) =>
    found.flatMap((each) => {
      const [said, right, hit] = ["said", "right", "hit"].map((name) => each[one.at[name]]);
      return [sentence(each[one.at.group], said, right, hit), ...alternatives(one.at.top ? each[one.at.top] : [], text(right), null, "Its answers")];
    });
  const link = (one, found) =>
    found.map((each) => {
      const at = (name) => each[one.at[name]];
      const line = make("p", `ex-said ${SIDES[Number(Boolean(at("hit")))]}`);
      const picked = slice(at("picked_start"), at("picked_end"));
      line.append(make("b", "", text(at("group"))), ` attends most to ${picked}${at("hit") ? "" : `, looked for ${slice(at("expected_start"), at("expected_end"), 24)}`} (${text(at("by"))})`);
      return line;
    });
  const sentence = (group, said, right, hit) => {
    const line = make("p", `ex-said ${SIDES[Number(Boolean(hit))]}`);
    line.append(make("b", "", text(group)), ` ${text(said)}${hit ? ", right" : `; right is ${text(right)}`}`);
    return line;
  };
  const whole = (one, found, open) => {
    if (!found.length) return [];
    const fold = make("details", "ex-whole");
    fold.open = open;
    fold.append(make("summary", "", `${one.label}: of the whole function`), ...found.map((each) => sentence(...each)));
    return [fold];
  };
  return { amount, answer, link, whole };
};
