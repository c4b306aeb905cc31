// Keeps the regions of a page up to date: a stream says what kinds of things have changed,
// and the page then asks for how it differs from the version that it shows, at most once a
// second, at most 4 kB a second, and only while the page is visible.
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
  let pause = 1000; // between two requests
  let version = document.body.dataset.version;

  const away = document.getElementById("away");
  let lostAt = null;
  let warning = 0;

  // A connection that is back within a second is no news.
  function show(live) {
    state.hidden = false;
    state.classList.toggle("lost", !live);
    words.textContent = live ? "live" : "not connected";
    if (live) {
      clearTimeout(warning);
      lostAt = null;
      away.hidden = true;
      document.body.classList.remove("stale");
    } else if (!lostAt) {
      lostAt = new Date();
      document.body.classList.add("stale");
      warning = setTimeout(function () {
        document.getElementById("away-since").textContent = lostAt.toLocaleTimeString("en-GB");
        away.hidden = false;
      }, 1000);
    }
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
    timer = setTimeout(draw, Math.max(0, last + pause - Date.now()));
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
    if (!wanted(kinds).length || document.getElementById("dialog").open) return;
    if (held()) {
      for (const kind of kinds) due.add(kind);
      timer = setTimeout(draw, 1000);
      return;
    }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html", "Abide-Version": version } });
      if (answer.ok && !answer.redirected) {
        const text = await answer.text();
        pause = Math.min(20000, Math.max(1000, text.length / 4.096));
        if (answer.headers.get("Content-Type").startsWith("application/json")) {
          patch(JSON.parse(text));
        } else {
          const fresh = new DOMParser().parseFromString(text, "text/html");
          for (const region of document.querySelectorAll("[data-region]")) swap(region, fresh.getElementById(region.id));
          version = fresh.body.dataset.version;
        }
        document.dispatchEvent(new Event("abide:drawn"));
      }
    } catch {
      show(false);
    }
    busy = false;
    last = Date.now();
    plan();
  }

  // held reports whether a person types or selects text in a region: then it stays as it is.
  function held() {
    const active = document.activeElement;
    if (active && active.closest("[data-region]") && active.matches("input, select, textarea") && active.type !== "checkbox") return true;
    const selection = getSelection();
    const node = selection && !selection.isCollapsed && selection.anchorNode;
    return Boolean(node && (node.closest ? node : node.parentElement).closest("[data-region]"));
  }

  function parsed(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  }

  // patch makes the page that of another version.
  function patch(change) {
    version = ""; // until all of it is done
    for (const one of change.regions) {
      const region = document.getElementById(one.id);
      const old = [...region.querySelectorAll("[data-items]")];
      let lists = old;
      let fresh = null;
      if (one.skeleton !== undefined) {
        fresh = document.createElement(region.tagName);
        fresh.append(parsed(one.skeleton));
        lists = one.lists ? [...fresh.querySelectorAll("[data-items]")] : [];
        lists.forEach(function (list, i) { list.append(...[...old[i].children].map(function (item) { return item.cloneNode(true); })); });
      }
      lists.forEach(function (list, i) {
        for (const splice of one.lists[i]) replace(list, splice);
      });
      if (fresh) swap(region, fresh);
    }
    version = change.version;
  }

  function replace(list, splice) {
    const items = [...list.children].slice(splice.at, splice.at + splice.remove);
    const after = list.children[splice.at + splice.remove] || null;
    const fresh = parsed(splice.html || "");
    for (const item of items) {
      for (const open of item.querySelectorAll("details[open][id]")) {
        const same = fresh.querySelector("#" + CSS.escape(open.id));
        if (same) same.open = true;
      }
      const active = item.contains(document.activeElement) ? find(document.activeElement) : "";
      item.remove();
      if (active) fresh.querySelector(active)?.setAttribute("data-focus", "");
    }
    list.insertBefore(fresh, after);
    const focused = list.querySelector("[data-focus]");
    if (focused) {
      focused.removeAttribute("data-focus");
      focused.focus({ preventScroll: true });
    }
  }

  // What a person has opened, ticked or is about to press stays as it is.
  function swap(old, fresh) {
    if (!fresh || !old.isConnected || old.innerHTML === fresh.innerHTML) return;
    const active = document.activeElement;
    for (const open of old.querySelectorAll("details[open][id]")) {
      const same = fresh.querySelector("#" + CSS.escape(open.id));
      if (same) same.open = true;
    }
    const ticked = new Set([...old.querySelectorAll("input[type=checkbox]:checked")].map(function (box) { return box.id || box.value; }));
    for (const box of fresh.querySelectorAll("input[type=checkbox]")) box.checked = ticked.has(box.id || box.value);
    const focused = old.contains(active) ? find(active) : "";
    old.replaceChildren(...document.adoptNode(fresh).childNodes);
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
  addEventListener("pagehide", function () { clearTimeout(warning); leave(); });
  addEventListener("pageshow", function () { if (!document.hidden) listen(); });
  document.getElementById("dialog").addEventListener("close", plan);
  if (!document.hidden) listen();
})();
