// Dialogs, copying, keys and times: what is more pleasant with a script. Without it every
// form is a page of its own, and nothing is missing.
"use strict";

(function () {
  const dialog = document.getElementById("dialog");
  let opener = null;

  // A form is fetched as the page that it is, and shown in the dialog.
  async function open(address, from) {
    let form = null;
    try {
      const answer = await fetch(address, { headers: { Accept: "text/html" } });
      if (answer.ok) {
        const text = await answer.text();
        form = new DOMParser().parseFromString(text, "text/html").getElementById("form");
      }
    } catch {
      // The page itself says what is wrong.
    }
    if (!form) {
      location.assign(address);
      return;
    }
    form.querySelector("form").action = address;
    dialog.replaceChildren(document.adoptNode(form));
    opener = from;
    dialog.showModal();
    const first = dialog.querySelector("input:not([type=hidden]), select, textarea");
    (first || dialog.querySelector("[data-close]")).focus();
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
    const link = event.target.closest("a[data-dialog]");
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
      open(form.action + "?" + new URLSearchParams(new FormData(form)), event.submitter);
      return;
    }
    const button = event.target.querySelector("button:not([type=button])");
    if (button && event.target.method === "post") {
      setTimeout(function () { button.disabled = true; }, 0); // once is enough
    }
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
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.target.closest("input, textarea, select")) return;
    const jump = document.getElementById("jump");
    if (jump) {
      event.preventDefault();
      jump.focus();
    }
  });

  document.addEventListener("change", function (event) {
    if (event.target.id !== "all-rows") return;
    for (const box of document.querySelectorAll('input[name="instance"]')) box.checked = event.target.checked;
  });

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
    if (document.hidden) return;
    for (const time of document.querySelectorAll("time[data-relative]")) {
      const words = relative(Date.parse(time.dateTime));
      if (time.textContent !== words) time.textContent = words;
    }
  }
  setInterval(tell, 1000);

  function dress() {
    for (const hidden of document.querySelectorAll("[data-copy][hidden], #all-rows[hidden]")) hidden.hidden = false;
  }
  dress();
  document.addEventListener("abide:drawn", function () { dress(); tell(); });

  // On a narrow screen the menu is a strip: the page's own entry is in sight.
  const current = document.querySelector(".menu [aria-current]");
  if (current) {
    const menu = current.closest(".menu");
    menu.scrollLeft = current.offsetLeft - (menu.clientWidth - current.offsetWidth) / 2;
  }

  // What was done is said once, also when the page is loaded again.
  const here = new URL(location.href);
  if (here.searchParams.has("done")) {
    here.searchParams.delete("done");
    history.replaceState(null, "", here);
  }
})();
