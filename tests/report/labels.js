// What somebody who does not see the page, or has no mouse, would stumble over.
() => {
  const found = [], say = (what, element) => found.push(`${what}: ${element.outerHTML.slice(0, 120)}`);
  const named = (element) => (element.getAttribute("aria-label") || "").trim()
    || (element.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)).filter(Boolean).map((e) => e.textContent).join("").trim()
    || [...(element.labels || [])].map((label) => label.textContent).join("").trim();
  if (!document.documentElement.lang) say("no language", document.documentElement);
  for (const e of document.querySelectorAll("input, select, textarea, meter")) if (!named(e)) say("no label", e);
  for (const e of document.querySelectorAll("button, a[href], summary")) if (!(e.textContent.trim() || named(e))) say("no text", e);
  for (const e of document.querySelectorAll("img")) if (!e.hasAttribute("alt")) say("no alternative", e);
  for (const e of document.querySelectorAll("[role=img], [role=region], canvas:not(.mark)")) if (!named(e)) say("no name", e);
  for (const e of document.querySelectorAll("th")) if (!e.hasAttribute("scope") && !e.closest(".told")) say("no scope", e);
  for (const e of document.querySelectorAll("[tabindex]")) if (Number(e.getAttribute("tabindex")) > 0) say("order of tabs", e);
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  ids.forEach((id, i) => { if (ids.indexOf(id) !== i) found.push(`id twice: ${id}`); });
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map((e) => Number(e.tagName[1]));
  if (levels.filter((l) => l === 1).length !== 1) found.push("need one h1");
  levels.forEach((l, i) => { if (i && l > levels[i - 1] + 1) found.push(`heading jumps to h${l}`); });
  for (const e of document.querySelectorAll("button, select, input[type=search], input[type=range]")) {
    const box = e.getBoundingClientRect();
    if (e.checkVisibility() && (box.height < 24 || box.width < 24)) say("too small to touch", e);
  }
  return found;
}
