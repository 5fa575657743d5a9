document.addEventListener("DOMContentLoaded", () => {
  const box = document.querySelector(".queries");
  if (!box) return;
  const data = JSON.parse(document.getElementById(box.dataset.source).textContent);
  const form = box.querySelector("form");
  const list = box.querySelector(".qz-list");
  const told = box.querySelector(".qz-count");
  // As many as are read in one go; the rest is drawn when the end comes into sight.
  const STEP = 40;
  let found = [];
  let drawn = 0;

  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const visible = (text) => text.replaceAll(" ", "\u2423").replaceAll("\n", "\u21b5").replaceAll("\t", "\u2192");
  const share = (value) => (value >= 0.001 ? `${(100 * value).toFixed(1)} %` : "< 0.1 %");

  const entry = (query) => {
    const item = make("li");
    const left = make("div");
    const code = make("pre", "qz-code");
    const gap = make("span", query.rank > 1 ? "qz-gap wrong" : "qz-gap", query.answer);
    code.append(query.before, gap, query.behind);
    const facts = make("p", "qz-facts");
    const among = query.competing ? ` of ${query.competing}` : "";
    const calls = `${query.calls} call${query.calls === 1 ? "" : "s"} in the corpus`;
    facts.append(make("b", "", `rank ${query.rank}${among}`));
    facts.append(` · ${data.templates[query.template]} · ${query.mode}, ${data.places[query.place]} · ${calls}`);
    left.append(code, facts);
    const right = make("div", "qz-top");
    for (const [text, value, gold] of query.top) {
      const row = make("div", gold ? "alt gold" : "alt");
      row.style.setProperty("--share", `${100 * value}%`);
      row.append(make("span", "", visible(text)), make("span", "", share(value)));
      right.append(row);
    }
    item.append(left, right);
    return item;
  };

  const more = () => {
    list.append(...found.slice(drawn, drawn + STEP).map(entry));
    drawn = Math.min(drawn + STEP, found.length);
  };
  const draw = () => {
    const chosen = Object.fromEntries(new FormData(form));
    const words = (chosen.find || "").toLowerCase();
    found = data.queries.filter(
      (query) =>
        query.model === Number(chosen.model || 0) &&
        (!chosen.template || query.template === chosen.template) &&
        (!chosen.mode || query.mode === chosen.mode) &&
        (!chosen.side || (query.rank > 1) === (chosen.side === "wrong")) &&
        (!words || (query.before + query.answer + query.behind).toLowerCase().includes(words)),
    );
    const wrong = found.filter((query) => query.rank > 1).length;
    told.textContent = `${found.length} shown, ${wrong} of them wrong`;
    list.replaceChildren();
    list.scrollTop = 0;
    drawn = 0;
    if (found.length) more();
    else list.append(make("li", "qz-none", "No cloze query is like this."));
  };
  list.addEventListener("scroll", () => {
    if (drawn < found.length && list.scrollTop + list.clientHeight > list.scrollHeight - 400) more();
  });
  form.addEventListener("input", draw);
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("beforeprint", () => {
    while (drawn < found.length && drawn < 3 * STEP) more();
  });
  draw();
});
