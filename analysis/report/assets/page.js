// The view of single prompts. Every text goes into the page as a text node, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("view-data").textContent);
  const viewer = document.getElementById("viewer");
  if (!data.prompts.length || !viewer) return;

  const find = (id) => document.getElementById(id);
  const text = find("view-text"),
    tip = find("tip"),
    choice = find("prompt-choice"),
    hide = find("hide-unkept");
  const several = data.sources.length > 1;
  const state = { prompt: 0, policy: data.sources[data.prompts[0].source].best };

  const make = (tag, className, content) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (content !== undefined) element.textContent = content;
    return element;
  };
  const percent = (value) =>
    value === null || value === undefined ? "not recorded" : (100 * value).toFixed(1) + " %";
  const word = (number) => data.words[number];
  const quoted = (string) => "“" + (string || "(empty)").replace(/\n/g, "↵").replace(/\t/g, "⇥") + "”";

  // One iteration's tokens in the order in which they came to be; the rule is that of the simulation:
  // accepted ones, the first wrong one, what the draft went on to say, and one token of the target's own.
  function tokensOf(prompt, position, drafted, accepted) {
    const found = [];
    for (let at = position; at < position + accepted; at++) {
      found.push({ kind: "accepted", word: prompt.target[at], confidence: prompt.confidence[at] });
    }
    const at = position + accepted;
    const proposed = drafted > accepted ? prompt.draft[at] : null;
    const same = proposed !== null && proposed === prompt.target[at];
    let missing = 0;
    if (proposed !== null && !same) {
      found.push({ kind: "rejected", word: proposed, confidence: prompt.confidence[at] });
      const [words, confidence] = prompt.overruns[at] || [[], []];
      const length = drafted - accepted - 1;
      for (let j = 0; j < Math.min(length, words.length); j++) {
        found.push({ kind: "overrun", word: words[j], confidence: confidence[j] });
      }
      missing = Math.max(length - words.length, 0);
    }
    const note = same
      ? "the draft proposed it too: an end of text always counts as the target's own"
      : proposed !== null
        ? "in place of " + quoted(word(proposed))
        : drafted
          ? "a bonus after an accepted draft"
          : "nothing was drafted";
    found.push({ kind: "own", word: prompt.target[at], note, confidence: same ? prompt.confidence[at] : undefined });
    return { tokens: found, missing };
  }

  const KINDS = {
    accepted: "accepted",
    rejected: "rejected",
    overrun: "overrun, wasted",
    own: "the target's own token",
  };

  function describe(token) {
    const signal = token.confidence === undefined ? "" : "; confidence " + percent(token.confidence);
    return quoted(word(token.word)) + ": " + KINDS[token.kind] + (token.note ? " (" + token.note + ")" : "") + signal;
  }

  function drawToken(token, iteration) {
    const string = word(token.word),
      kept = token.kind === "accepted" || token.kind === "own";
    const shown = string === "" ? "∅" : kept ? string.replace(/\n/g, "↵\n") : string.replace(/\n/g, "↵");
    const element = make("span", "token " + token.kind, shown);
    element.setAttribute("role", "option");
    element.setAttribute("aria-selected", "false");
    element.setAttribute("aria-label", describe(token));
    element.tabIndex = -1;
    element.dataset.detail = describe(token) + " — " + iteration;
    return element;
  }

  function drawRound(prompt, number, [position, drafted, accepted]) {
    const { tokens, missing } = tokensOf(prompt, position, drafted, accepted);
    const round = make("span", "round" + (number % 2 ? " odd" : ""));
    const name = "iteration " + (number + 1) + ": " + drafted + " drafted, " + accepted + " accepted";
    round.setAttribute("role", "group");
    round.setAttribute("aria-label", name);
    const bracket = (mark) => {
      const element = make("span", "bracket", mark);
      element.setAttribute("aria-hidden", "true");
      return element;
    };
    round.append(bracket("["), ...tokens.slice(0, -1).map((token) => drawToken(token, name)));
    if (missing) round.append(make("span", "more", " +" + missing + " not recorded "));
    round.append(drawToken(tokens[tokens.length - 1], name), bracket("]"));
    return round;
  }

  const triples = (flat) => Array.from({ length: flat.length / 3 }, (_, row) => flat.slice(3 * row, 3 * row + 3));
  const total = (rows, column) => rows.reduce((sum, row) => sum + row[column], 0);

  function drawText() {
    const prompt = data.prompts[state.prompt];
    const source = data.sources[prompt.source];
    const rounds = triples(prompt.rounds[state.policy]);
    text.replaceChildren(...rounds.map((round, number) => drawRound(prompt, number, round)));
    text.setAttribute("aria-label", "Text of prompt " + prompt.id + " under " + source.policies[state.policy]);
    const first = text.querySelector(".token");
    if (first) first.tabIndex = 0;
    find("question").textContent =
      (prompt.cut ? "[" + prompt.cut + " earlier tokens left out] " : "") + prompt.prompt.map(word).join("");
    const end = prompt.finish === "eos" ? "the target ended it" : "cut off by the length limit";
    find("view-summary").textContent =
      prompt.target.length + " tokens in " + rounds.length + " target passes; " + end + ".";
    hideTip();
  }

  function drawPolicies() {
    const prompt = data.prompts[state.prompt];
    const source = data.sources[prompt.source];
    find("policy-rows").replaceChildren(
      ...source.policies.map((name, number) => {
        const rounds = triples(prompt.rounds[number]);
        const row = make("tr", number === state.policy ? "chosen" : "");
        const head = make("th"),
          label = make("label"),
          radio = make("input");
        head.scope = "row";
        radio.type = "radio";
        radio.name = "policy";
        radio.value = String(number);
        radio.checked = number === state.policy;
        label.append(radio, make("code", "", name));
        if (number === source.best) label.append(make("small", "", source.note));
        head.append(label);
        const drafted = total(rounds, 1),
          accepted = total(rounds, 2);
        const cells = [rounds.length, drafted, accepted, drafted - accepted, prompt.speedups[number].toFixed(2)];
        row.append(head, ...cells.map((value) => make("td", "number", String(value))));
        return row;
      }),
    );
  }

  function choosePolicy(number) {
    state.policy = number;
    // The rows stay in place, so that the radio button keeps the focus.
    find("policy-rows").childNodes.forEach((row, at) => {
      row.className = at === number ? "chosen" : "";
    });
    drawText();
  }

  const sourceOf = (prompt) => data.sources[data.prompts[prompt].source];

  function choosePrompt(number) {
    const before = sourceOf(state.prompt);
    state.prompt = Math.min(Math.max(number, 0), data.prompts.length - 1);
    const now = sourceOf(state.prompt);
    if (now !== before) {
      // Traces may differ in what they can replay, and in what is best.
      const same = now.policies.indexOf(before.policies[state.policy]);
      state.policy = state.policy === before.best || same < 0 ? now.best : same;
    }
    choice.value = String(state.prompt);
    find("previous").disabled = state.prompt === 0;
    find("next").disabled = state.prompt === data.prompts.length - 1;
    drawPolicies();
    drawText();
  }

  // --- a prompt's own address: #prompt=ID, with &trace=NAME where the page holds several traces ---

  // Half of a pair, from a damaged file, has no place in an address.
  const whole = (text) => text.replace(/\p{Surrogate}/gu, "\ufffd");

  function addressOf(number) {
    const prompt = data.prompts[number];
    const trace = several ? "&trace=" + encodeURIComponent(whole(data.sources[prompt.source].name)) : "";
    return "#prompt=" + encodeURIComponent(whole(prompt.id)) + trace;
  }

  function open(number) {
    choosePrompt(number);
    find("view-missing").hidden = true;
    history.replaceState(null, "", addressOf(state.prompt));
  }

  // Opens the prompt that the address names; other addresses are sections of the page.
  function follow() {
    if (!location.hash.startsWith("#prompt=")) return;
    const asked = new URLSearchParams(location.hash.slice(1).replace(/\+/g, "%2B"));
    const id = asked.get("prompt"),
      trace = asked.get("trace");
    const number = data.prompts.findIndex(
      (prompt) =>
        whole(prompt.id) === id && (trace === null || whole(data.sources[prompt.source].name) === trace),
    );
    if (number >= 0) choosePrompt(number);
    find("view-missing").hidden = number >= 0;
    find("view-missing").textContent = "Prompt " + id + " is not among those that this page holds.";
    find("prompts").scrollIntoView();
    choice.focus({ preventScroll: true });
  }

  function showTip(token) {
    tip.textContent = token.dataset.detail;
    tip.hidden = false;
    const box = token.getClientRects()[0],
      width = document.documentElement.clientWidth;
    if (!box) return;
    tip.style.left = Math.max(4, Math.min(box.left, width - tip.offsetWidth - 4)) + window.scrollX + "px";
    tip.style.top = box.bottom + 6 + window.scrollY + "px";
  }

  function hideTip() {
    tip.hidden = true;
  }

  function move(event) {
    const visible = Array.from(text.querySelectorAll(".token")).filter((token) => token.getClientRects().length);
    const at = visible.indexOf(document.activeElement);
    if (at < 0) return;
    const starts = visible.filter((token, index) => !index || token.parentNode !== visible[index - 1].parentNode);
    const round = starts.findIndex((token) => token.parentNode === visible[at].parentNode);
    const target = {
      ArrowRight: visible[at + 1],
      ArrowLeft: visible[at - 1],
      Home: visible[0],
      End: visible[visible.length - 1],
      ArrowDown: starts[round + 1],
      ArrowUp: starts[Math.max(round - 1, 0)],
    }[event.key];
    if (event.key === "Escape") hideTip();
    if (!target) return;
    event.preventDefault();
    target.focus();
  }

  function focused(token) {
    text.querySelectorAll('.token[tabindex="0"]').forEach((other) => {
      other.tabIndex = -1;
    });
    text
      .querySelectorAll('.token[aria-selected="true"]')
      .forEach((other) => other.setAttribute("aria-selected", "false"));
    token.tabIndex = 0;
    token.setAttribute("aria-selected", "true");
    showTip(token);
  }

  const tokenAt = (event) => event.target.closest(".token");
  text.addEventListener("mouseover", (event) => {
    const token = tokenAt(event);
    if (token) showTip(token);
  });
  text.addEventListener("mouseout", hideTip);
  text.addEventListener("focusin", (event) => {
    const token = tokenAt(event);
    if (token) focused(token);
  });
  text.addEventListener("focusout", hideTip);
  text.addEventListener("keydown", move);
  hide.addEventListener("change", () => {
    text.classList.toggle("hide-unkept", hide.checked);
    // The text must stay reachable by Tab when the token that held the tab stop is hidden now.
    const visible = Array.from(text.querySelectorAll(".token")).find((token) => token.getClientRects().length);
    if (visible)
      text.querySelectorAll(".token").forEach((token) => {
        token.tabIndex = token === visible ? 0 : -1;
      });
  });
  choice.addEventListener("change", () => open(Number(choice.value)));
  find("previous").addEventListener("click", () => open(state.prompt - 1));
  find("next").addEventListener("click", () => open(state.prompt + 1));
  find("policy-rows").addEventListener("change", (event) => choosePolicy(Number(event.target.value)));

  choice.append(
    ...data.prompts.map((prompt, number) => {
      const label = (several ? data.sources[prompt.source].name + ", " : "") + "prompt " + prompt.id;
      const option = make("option", "", label.length > 60 ? label.slice(0, 59) + "…" : label);
      option.value = String(number);
      return option;
    }),
  );
  viewer.hidden = false;
  choosePrompt(0);
  window.addEventListener("hashchange", follow);
  follow();
})();
