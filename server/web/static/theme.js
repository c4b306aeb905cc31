// The theme is what the system says, or what a person has chosen in this browser. It is set
// before anything is drawn, so that nothing flashes.
"use strict";

(function () {
  const key = "abide-theme";
  const choices = ["system", "light", "dark"];

  function chosen() {
    try {
      const value = localStorage.getItem(key);
      return choices.includes(value) ? value : "system";
    } catch {
      return "system"; // a browser may forbid it
    }
  }

  function apply(choice) {
    if (choice === "system") {
      delete document.documentElement.dataset.theme;
    } else {
      document.documentElement.dataset.theme = choice;
    }
  }

  apply(chosen());

  document.addEventListener("DOMContentLoaded", function () {
    const button = document.getElementById("theme");
    const words = document.getElementById("theme-words");
    function label() {
      words.textContent = "Theme: " + chosen();
      button.title = "Theme: " + chosen();
    }
    button.hidden = false;
    label();
    button.addEventListener("click", function () {
      const next = choices[(choices.indexOf(chosen()) + 1) % choices.length];
      try {
        localStorage.setItem(key, next);
      } catch {
        return;
      }
      apply(next);
      label();
    });
  });
})();
