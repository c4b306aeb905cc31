// Keeps the regions of a page up to date: a stream says what kinds of things have changed,
// and the page then asks for itself once more, at most once a second and only while
// somebody looks.
"use strict";

(function () {
  const address = document.body.dataset.live;
  if (!address || !window.EventSource) return;

  const state = document.getElementById("live-state");
  const words = document.getElementById("live-words");
  let stream = null;
  let due = new Set();
  let busy = false;
  let last = 0;
  let timer = 0;

  function show(live) {
    state.hidden = false;
    state.classList.toggle("lost", !live);
    words.textContent = live ? "live" : "not connected";
  }

  function listen() {
    if (stream) return;
    stream = new EventSource(address);
    stream.addEventListener("open", function () {
      show(true);
      all(); // what has changed since the page was made, nobody has told
    });
    stream.addEventListener("error", function () {
      show(false);
      if (stream && stream.readyState === EventSource.CLOSED) {
        stream = null;
        setTimeout(function () { if (!document.hidden) listen(); }, 5000);
      }
    });
    stream.addEventListener("change", function (event) {
      for (const kind of event.data.split("\n")) due.add(kind);
      plan();
    });
  }

  function leave() {
    if (stream) stream.close();
    stream = null;
  }

  function plan() {
    if (busy || timer || !due.size || document.hidden) return;
    timer = setTimeout(draw, Math.max(0, last + 1000 - Date.now()));
  }

  function all() {
    for (const region of document.querySelectorAll("[data-region]")) {
      for (const kind of region.dataset.region.split(" ")) due.add(kind);
    }
    plan();
  }

  function wanted(kinds) {
    return [...document.querySelectorAll("[data-region]")].filter(function (region) {
      return region.dataset.region.split(" ").some(function (kind) { return kinds.has(kind); });
    });
  }

  async function draw() {
    timer = 0;
    const kinds = due;
    due = new Set();
    const regions = wanted(kinds);
    if (!regions.length || document.getElementById("dialog").open) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (answer.ok && !answer.redirected) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const region of regions) swap(region, fresh.getElementById(region.id));
        document.dispatchEvent(new Event("abide:drawn"));
      }
    } catch {
      show(false);
    }
    busy = false;
    last = Date.now();
    plan();
  }

  // What a person has opened, ticked or is about to press stays as it is.
  function swap(old, fresh) {
    if (!fresh || !old.isConnected || old.innerHTML === fresh.innerHTML) return;
    const active = document.activeElement;
    if (old.contains(active) && active.matches("input, select, textarea") && active.type !== "checkbox") return;
    const selection = getSelection();
    if (selection && !selection.isCollapsed && old.contains(selection.anchorNode)) return;
    for (const open of old.querySelectorAll("details[open][id]")) {
      const same = fresh.querySelector("#" + CSS.escape(open.id));
      if (same) same.open = true;
    }
    const ticked = new Set([...old.querySelectorAll("input[type=checkbox]:checked")].map(function (box) { return box.id || box.value; }));
    for (const box of fresh.querySelectorAll("input[type=checkbox]")) box.checked = ticked.has(box.id || box.value);
    const focused = old.contains(active) ? find(active) : "";
    old.replaceChildren(...document.adoptNode(fresh).childNodes);
    old.className = fresh.className;
    if (focused) {
      const again = old.querySelector(focused);
      if (again) again.focus({ preventScroll: true });
    }
  }

  function find(element) {
    if (element.id) return "#" + CSS.escape(element.id);
    if (element.name && element.value) return '[name="' + CSS.escape(element.name) + '"][value="' + CSS.escape(element.value) + '"]';
    if (element.getAttribute("href")) return 'a[href="' + CSS.escape(element.getAttribute("href")) + '"]';
    if (element.dataset.copy) return '[data-copy="' + CSS.escape(element.dataset.copy) + '"]';
    return "";
  }

  document.addEventListener("visibilitychange", function () {
    if (document.hidden) {
      leave();
      return;
    }
    listen();
  });
  addEventListener("pagehide", leave);
  addEventListener("pageshow", function () { if (!document.hidden) listen(); });
  document.getElementById("dialog").addEventListener("close", plan);
  if (!document.hidden) listen();
})();
