"""Everything that a reader can click, choose, type or press on a page, done once."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page
from tests.report.browser import charts_drawn, opened

# A handler that throws is reported by the browser and ends nothing here: the rest is clicked all the same.
CLICKS = """async () => {
  const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
  const some = (found, most) =>
    [...found].filter((_, index) => index % Math.ceil(found.length / most) === 0);
  const say = (element, kind, options) =>
    element.dispatchEvent(new Event(kind, { bubbles: true, ...options }));
  const press = (element, key) =>
    element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const point = (element) => ["mouseover", "mouseenter", "focus", "mouseleave", "blur"].forEach((kind) =>
    element.dispatchEvent(new MouseEvent(kind, { bubbles: kind === "mouseover" })));
  const done = {};
  const count = (name, number = 1) => { done[name] = (done[name] ?? 0) + number; };
  const all = (named, most, does) => some(document.querySelectorAll(named), most).forEach((element) => {
    does(element);
    count(named);
  });
  const choose = (control) => {
    for (const option of some(control.options, 12)) {
      control.value = option.value;
      say(control, "input");
      say(control, "change");
    }
  };
  const KEYS = [
    ..."cbmcnptt", "ArrowDown", "ArrowRight", "ArrowUp", "ArrowUp", "ArrowLeft", "End", "ArrowDown", "Home",
    "ArrowUp",
  ];
  const read = () => {
    all(".ex-code .t", 8, (token) => { point(token); token.click(); });
    all(".ex-node", 8, point);
    all(".ex-worst button", 4, (button) => button.click());
    // A key may set another code in the place of the second.
    for (const number of [0, 1]) {
      for (const key of KEYS) {
        const code = document.querySelectorAll(".ex-code")[number];
        if (code) press(code, key);
      }
    }
    all(".ex-code", 2, () => {});
  };

  all("details:not(.save) > summary", 400, (summary) => summary.click());
  all("details:not(.save)", 400, (details) => { details.open = true; });
  all("th button", 200, (button) => { button.click(); button.click(); });
  all("#theme", 1, (button) => { button.click(); button.click(); });
  all(".contents a, main a[href^='#']", 400, (link) => link.click());
  all(".ex-items button", 50, (button) => { button.click(); });
  await wait(0);
  read();
  for (const control of some(document.querySelectorAll(".explorer select"), 9)) {
    for (const option of some(control.options, 9)) {
      if (![...control.options].includes(option)) continue;
      control.value = option.value;
      say(control, "change");
      read();
      await wait(0);
    }
    count("explorer's choices");
  }
  all("input[type=search], input:not([type])", 9, (input) => {
    for (const words of ["a", "nowhere at all", ""]) {
      input.value = words;
      say(input, "input");
    }
  });
  all(".ex-items button", 3, (button) => { button.click(); });
  all("form select", 20, choose);
  all("form", 9, (form) => say(form, "submit", { cancelable: true }));
  all(".qz-list", 2, (list) => { list.scrollTop = list.scrollHeight; });
  for (const button of some(document.querySelectorAll("button[data-as], button[data-table]"), 40)) {
    const menu = button.closest("details");
    if (menu) menu.open = true;
    button.click();
    count("saved");
    await wait(20);
  }
  document.querySelectorAll("details.save").forEach((menu) => { menu.open = true; });
  press(document.querySelector("details.save summary") ?? document.body, "Escape");
  window.dispatchEvent(new Event("beforeprint"));
  window.dispatchEvent(new Event("afterprint"));
  // Saving goes on when its click is over, and what fails then is an unhandled rejection.
  if (done.saved) await wait(200);
  return done;
}"""


def clicked_through(text: str, folder: Path, *, width: int = 1280) -> dict[str, int]:
    """Click through a page, which must not complain; how much there was of what is clicked.

    Args:
        text: The page.
        folder: Where it may lie.
        width: Of the window, in pixels.

    Raises:
        AssertionError: The browser told of an error, the page asked for something beyond itself, or a chart
            was not drawn.
    """
    with opened(text, folder, width=width) as page:
        assert charts_drawn(page) == text.count("data-chart=")
        done = click_through(page)
        assert charts_drawn(page) == text.count("data-chart=")
    return done


def click_through(page: Page) -> dict[str, int]:
    """Click everything on an open page."""
    done: dict[str, int] = page.evaluate(CLICKS)
    # What a pointer does beyond its clicks: charts have hints where it rests.
    for chart in page.locator("[data-chart] svg").all()[:4]:
        chart.hover(timeout=10_000)
    return done
