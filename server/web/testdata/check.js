// Finds what keeps people from using a page. Its value is a list of findings.
(function () {
  const found = [];
  const say = (element, what) => found.push(what + ": " + element.outerHTML.slice(0, 160));
  const seen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && element.getClientRects().length > 0;
  const all = (selector) => [...document.querySelectorAll(selector)];

  for (const e of all("input:not([type=hidden]), select, textarea")) {
    if (!(e.labels && e.labels.length) && !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby")) say(e, "no label");
  }
  for (const e of all("a, button")) {
    if (!seen(e)) continue;
    if (!(e.getAttribute("aria-label") || e.textContent.trim())) say(e, "no name");
    if (e.tagName === "A" && !e.getAttribute("href")) say(e, "a link that leads nowhere");
  }
  for (const e of all("[tabindex]")) if (e.tabIndex > 0) say(e, "positive tabindex");
  for (const e of all("img:not([alt])")) say(e, "a picture without words");
  for (const e of all("svg")) {
    const hidden = e.closest("[aria-hidden=true]");
    if (!hidden && !(e.getAttribute("role") === "img" && e.getAttribute("aria-label"))) say(e, "a drawing without words");
  }
  for (const e of all("[style], script:not([src]), style")) say(e, "script or style within the page");
  const ids = new Map();
  for (const e of all("[id]")) ids.set(e.id, (ids.get(e.id) || 0) + 1);
  for (const [id, n] of ids) if (n > 1) found.push("the id " + id + " is there " + n + " times");
  for (const e of all("[aria-describedby], [aria-labelledby]")) {
    const to = e.getAttribute("aria-describedby") || e.getAttribute("aria-labelledby");
    if (!document.getElementById(to) && e.id !== "dialog") say(e, "described by nothing");
  }

  let level = 0;
  const headings = all("h1, h2, h3, h4").filter(seen);
  if (headings.filter((h) => h.tagName === "H1" && !h.closest("dialog")).length !== 1) found.push("not one h1");
  for (const h of headings.filter((h) => !h.closest("dialog"))) {
    const next = Number(h.tagName[1]);
    if (next > level + 1) say(h, "a heading that leaves out a level");
    level = next;
  }
  if (document.documentElement.lang !== "en" || !document.title || !document.querySelector("main")) found.push("no language, title or main");

  const wide = document.scrollingElement.scrollWidth;
  if (wide > innerWidth) {
    found.push("the page is " + wide + " pixels wide, and the screen " + innerWidth);
    for (const e of all("body *")) {
      if (e.getBoundingClientRect().right > innerWidth + 1 && seen(e) && !e.closest(".table, .menu, pre, .command")) { say(e, "too wide"); break; }
    }
  }

  // Contrast of every text to what it stands on.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colour = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      const c = colour(getComputedStyle(at).backgroundColor);
      if (c[3] > 0) layers.push(c);
      if (c[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), colour("Canvas"));
  };
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const judged = new Set();
  const judge = (e, style) => {
    const below = ground(e);
    let text = over(colour(style.color), below);
    for (let at = e; at; at = at.parentElement) {
      const opacity = Number(getComputedStyle(at).opacity);
      if (opacity < 1) text = over(text.slice(0, 3).concat(opacity), below);
    }
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const have = ratio(text, below);
    if (have < (large ? 3 : 4.5)) say(e, "contrast " + have.toFixed(2));
  };
  // The edge of a field tells it from what it stands on.
  for (const e of all("input:not([type=hidden]):not([type=checkbox]), select, textarea").filter(seen)) {
    const below = ground(e.parentElement);
    const have = ratio(over(colour(getComputedStyle(e).borderTopColor), below), below);
    if (have < 3) say(e, "an edge with a contrast of " + have.toFixed(2));
  }
  // What is pressed is at least 24 pixels high.
  for (const e of all("td a, .menu a, .button, button, input:not([type=hidden]), select, .chip").filter(seen)) {
    const box = (e.closest("label.choice, .choices label") || e).getBoundingClientRect();
    if (box.height < 23.5) say(e, "only " + box.height.toFixed(1) + " pixels high");
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || judged.has(e) || e.closest("svg, script") || e.disabled || !seen(e)) continue;
    judged.add(e);
    judge(e, getComputedStyle(e));
  }
  for (const e of all("input[placeholder]").filter(seen)) judge(e, getComputedStyle(e, "::placeholder"));
  if (judged.size < 10) found.push("only " + judged.size + " texts were judged");
  return found;
})()
