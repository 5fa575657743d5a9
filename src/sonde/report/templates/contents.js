// The contents: closed at first where they would cover the page, and marked where the reader is.
(() => {
  const contents = document.querySelector("details.contents");
  const narrow = window.matchMedia("(max-width: 1000px)");
  const fit = () => { contents.open = !narrow.matches; };
  narrow.addEventListener("change", fit);
  fit();
  const links = new Map([...contents.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
  contents.addEventListener("click", (event) => {
    if (event.target.closest("a") && narrow.matches) contents.open = false;
  });
  contents.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !narrow.matches) return;
    contents.open = false;
    contents.querySelector("summary").focus();
  });
  const seen = new IntersectionObserver((entries) => {
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      const link = links.get(entry.target.id);
      links.forEach((each) => each.removeAttribute("aria-current"));
      link.setAttribute("aria-current", "true");
      if (!narrow.matches && contents.open && link.offsetParent) {
        const list = contents.getBoundingClientRect(), place = link.getBoundingClientRect();
        if (place.top < list.top || place.bottom > list.bottom) contents.scrollTop += place.top - list.top - 80;
      }
    });
  }, { rootMargin: "-10% 0px -80% 0px" });
  links.forEach((_, id) => { const place = document.getElementById(id); if (place) seen.observe(place); });
})();
