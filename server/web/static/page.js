// Dialogs, copying, keys and times: what is more pleasant with a script. Without it every
// form is a page of its own, and nothing is missing.
"use strict";

(function () {
  const dialog = document.getElementById("dialog");
  let opener = null;

  const unreachable = "No connection to the server. Try again when it is back; what you have typed stays here.";

  // A form is fetched as the page that it is, and shown in the dialog, and so is an error.
  async function open(address, from) {
    opener = from;
    let page = null;
    try {
      const answer = await fetch(address, { headers: { Accept: "text/html" } });
      page = new DOMParser().parseFromString(await answer.text(), "text/html");
    } catch {
      const error = document.createElement("section");
      error.className = "page";
      error.innerHTML = '<h1 id="dialog-title">Not possible now</h1><p></p><div class="verbs"><a class="button" href="#" data-close>Close</a></div>';
      error.querySelector("p").textContent = unreachable;
      showDialog(error);
      return;
    }
    const form = page.getElementById("form");
    const error = page.querySelector("main section.page");
    if (!form && !error) {
      location.assign(address); // such as to log in
      return;
    }
    if (!form) {
      error.querySelector("h1").id = "dialog-title";
      error.querySelector("a.button").dataset.close = "";
      error.querySelector("a.button").textContent = "Close";
      showDialog(error);
      return;
    }
    form.querySelector("form").action = address;
    showDialog(form);
  }

  // The Enter that opens a dialog, and that a keyboard repeats while it is held, must not send
  // its form.
  let enterHeld = false;
  let enterStale = false;
  document.addEventListener("keydown", function (event) { if (event.key === "Enter") enterHeld = true; }, true);
  document.addEventListener("keyup", function (event) { if (event.key === "Enter") enterHeld = enterStale = false; }, true);
  for (const kind of ["keydown", "keypress"]) {
    dialog.addEventListener(kind, function (event) { if (event.key === "Enter" && enterStale) event.preventDefault(); }, true);
  }

  function showDialog(content) {
    dialog.replaceChildren(document.adoptNode(content));
    if (!dialog.open) {
      dialog.showModal();
      enterStale = enterHeld;
    }
    const first = dialog.querySelector("input:not([type=hidden]), select, textarea, button.strong:not(.danger)");
    (first || dialog.querySelector("[data-close]")).focus();
    document.dispatchEvent(new Event("abide:dialog"));
  }

  // A form in the dialog is sent from here, so that the dialog stays, with what was typed,
  // if it is not accepted or does not arrive.
  async function send(form) {
    const button = form.querySelector("button:not([type=button])");
    button.disabled = true;
    try {
      const answer = await fetch(form.action, { method: "POST", headers: { Accept: "text/html" }, body: new URLSearchParams(new FormData(form)) });
      if (answer.redirected) {
        location.assign(answer.url);
        return;
      }
      const text = await answer.text();
      const page = new DOMParser().parseFromString(text, "text/html");
      const again = page.getElementById("form");
      if (again) {
        again.querySelector("form").action = form.action;
        showDialog(again);
        return;
      }
      const error = page.querySelector("main section.page p");
      complain(form, error ? error.textContent : "Not accepted: " + answer.status + " " + answer.statusText + ".");
    } catch {
      complain(form, "Not sent. " + unreachable);
    }
    button.disabled = false;
  }

  function complain(form, text) {
    let problem = dialog.querySelector(".problem");
    if (!problem) {
      problem = document.createElement("p");
      problem.className = "problem";
      problem.setAttribute("role", "alert");
      form.before(problem);
    }
    problem.textContent = text;
  }

  dialog.addEventListener("close", function () {
    dialog.replaceChildren();
    if (opener) {
      // The region that the opener was in may have been drawn anew.
      const again = opener.isConnected ? opener : document.querySelector('a[href="' + CSS.escape(opener.getAttribute("href") || "") + '"]');
      (again || document.getElementById("main")).focus();
    }
    opener = null;
  });

  // A click beside the dialog closes it.
  dialog.addEventListener("click", function (event) {
    if (event.target === dialog) dialog.close();
  });

  document.addEventListener("click", function (event) {
    if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const close = event.target.closest("[data-close]");
    if (close && dialog.open) {
      event.preventDefault();
      dialog.close();
      return;
    }
    const link = event.target.closest("a[data-dialog], #help");
    if (link) {
      event.preventDefault();
      open(link.href, link);
      return;
    }
    const copy = event.target.closest("[data-copy]");
    if (copy) copyText(copy);
  });

  // The selected rows go along to the form that asks what to do with them.
  document.addEventListener("submit", function (event) {
    const form = event.target.closest("form[data-dialog-form]");
    if (form) {
      event.preventDefault();
      if (!selected.size) {
        told.textContent = told.dataset.none;
        told.classList.add("last");
        return;
      }
      const query = new URLSearchParams(new FormData(form));
      query.delete("instance");
      for (const value of selected) query.append("instance", value);
      open(form.action + "?" + query, event.submitter);
      return;
    }
    if (event.target.method === "post" && dialog.contains(event.target)) {
      event.preventDefault();
      send(event.target);
      return;
    }
    const button = event.target.querySelector("button:not([type=button])");
    if (button && event.target.method === "post") {
      setTimeout(function () { button.disabled = true; }, 0); // once is enough
    }
  });

  // The next runs of the schedule that is being filled in.
  let previewing = 0;
  document.addEventListener("input", function (event) {
    const form = event.target.form;
    const place = form && form.querySelector("[data-preview]");
    if (!place || !["cron", "zone", "every"].includes(event.target.name)) return;
    clearTimeout(previewing);
    previewing = setTimeout(async function () {
      const query = new URLSearchParams();
      for (const name of ["cron", "zone", "every"]) query.set(name, form.elements[name].value);
      try {
        const answer = await fetch(place.dataset.preview + "?" + query, { headers: { Accept: "text/html" } });
        const runs = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("runs");
        if (!runs) return;
        for (const link of runs.querySelectorAll("a.button")) link.remove();
        runs.removeAttribute("id");
        place.replaceChildren(document.adoptNode(runs));
      } catch {
        // It is a help, and no more.
      }
    }, 300);
  });

  async function copyText(button) {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      const area = document.createElement("textarea");
      area.value = button.dataset.copy;
      area.className = "hidden";
      document.body.append(area);
      area.select();
      button.textContent = document.execCommand("copy") ? "Copied" : "Not copied";
      area.remove();
      button.focus();
    }
    setTimeout(function () { button.textContent = label; }, 1500);
  }

  document.addEventListener("keydown", function (event) {
    if (event.key !== "/" && event.key !== "?" || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.target.closest("input, textarea, select")) return;
    if (event.key === "?") {
      event.preventDefault();
      document.getElementById("help").click();
      return;
    }
    const jump = document.getElementById("jump");
    if (jump) {
      event.preventDefault();
      jump.focus();
    }
  });

  // The selected rows, by the value of their box: a row that leaves the list when the page is
  // drawn anew stays selected.
  const selected = new Set();
  const told = document.getElementById("selected");
  const boxes = function () { return document.querySelectorAll('input[name="instance"]'); };

  function tickSelected() {
    if (!told) return;
    for (const box of boxes()) box.checked = selected.has(box.value);
  }

  function tellSelected() {
    if (!told) return;
    tickSelected();
    told.textContent = selected.size ? selected.size + " selected" : "";
    told.classList.remove("last");
    document.getElementById("unselect").hidden = !selected.size;
  }

  document.addEventListener("change", function (event) {
    const all = event.target.id === "all-rows";
    if (!all && event.target.name !== "instance") return;
    for (const box of all ? boxes() : [event.target]) {
      if (event.target.checked) selected.add(box.value);
      else selected.delete(box.value);
    }
    tellSelected();
  });

  // Enter on a box would be a click on the button of its form.
  document.addEventListener("keydown", function (event) {
    if (event.key === "Enter" && event.target.matches('input[type="checkbox"]')) event.preventDefault();
  });

  if (told) {
    for (const box of boxes()) if (box.checked) selected.add(box.value); // kept by the browser on the way back
    document.getElementById("unselect").addEventListener("click", function () {
      selected.clear();
      document.getElementById("all-rows").checked = false;
      tellSelected();
    });
    tellSelected();
  }

  // Times in words, as the server says them.
  const skew = Number(document.body.dataset.now) - Date.now();

  function about(ms) {
    const s = Math.floor(ms / 1000);
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min";
    if (s < 172800) return Math.floor(s / 3600) + " h";
    const days = Math.floor(s / 86400);
    if (days < 60) return days + " days";
    if (days < 730) return Math.floor(days / 30) + " months";
    return Math.floor(days / 365) + " years";
  }

  function relative(at) {
    const ms = at - (Date.now() + skew);
    if (Math.abs(ms) < 1000) return "now";
    return ms > 0 ? "in " + about(ms) : about(-ms) + " ago";
  }

  function tell() {
    if (document.hidden || document.body.classList.contains("stale")) return;
    for (const time of document.querySelectorAll("time[data-relative]:not([data-exact])")) {
      const words = relative(Date.parse(time.dateTime));
      if (time.textContent !== words) time.textContent = words;
    }
  }
  setInterval(tell, 1000);

  // A click on a time shows it exactly, and another one in words: a phone has no hover.
  document.addEventListener("click", function (event) {
    const time = event.target.closest("time[data-relative]");
    if (!time || time.closest("a, summary")) return;
    if (time.dataset.exact === undefined) {
      time.dataset.exact = "";
      time.textContent = time.title;
    } else {
      delete time.dataset.exact;
      tell();
    }
  });

  function dress() {
    for (const hidden of document.querySelectorAll("[data-copy][hidden], #all-rows[hidden]")) hidden.hidden = false;
  }
  dress();
  document.addEventListener("abide:drawn", function () { dress(); tell(); tickSelected(); });

  // On a narrow screen the menu is a strip: the page's own entry is in sight. To ask where it is
  // lays out the whole page, so that waits for the first paint.
  const current = document.querySelector(".menu [aria-current]");
  if (current) requestAnimationFrame(function () {
    setTimeout(function () {
      const menu = current.closest(".menu");
      if (current.offsetLeft + current.offsetWidth > menu.clientWidth) menu.scrollLeft = current.offsetLeft - (menu.clientWidth - current.offsetWidth) / 2;
    }, 0);
  });

  // What was done is said once, also when the page is loaded again.
  const here = new URL(location.href);
  if (here.searchParams.has("done")) {
    here.searchParams.delete("done");
    history.replaceState(null, "", here);
  }
})();
