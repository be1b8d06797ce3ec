"use strict";
// A button beside whatever is to be pasted. Without JavaScript there is none, and the text can be selected.
(() => {
  const SHOWN = 2000; // milliseconds that a button says what came of it

  function select(block) {
    const range = document.createRange();
    range.selectNodeContents(block);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }

  async function copied(block) {
    try {
      await navigator.clipboard.writeText(block.textContent);
      return true;
    } catch {
      select(block); // pages that are not secure have no clipboard: this is the older way
      return document.execCommand("copy");
    }
  }

  document.querySelectorAll(".paste").forEach((place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy " + place.dataset.what);
    button.addEventListener("click", async () => {
      const done = await copied(place.querySelector("pre"));
      button.textContent = done ? "Copied" : "Selected: press Ctrl+C";
      button.setAttribute("aria-label", button.textContent);
      setTimeout(() => {
        button.textContent = "Copy";
        button.setAttribute("aria-label", "Copy " + place.dataset.what);
      }, SHOWN);
    });
    button.setAttribute("aria-live", "polite");
    place.prepend(button);
  });
})();
