// Only on a page that a local server sent: an expression of one's own, computed there.

function playground(app) {
  const field = el("input", {
    type: "text",
    placeholder: "Your own: (a + b) * tanh(b)",
    "aria-label": "An expression of your own",
    spellcheck: "false",
    autocomplete: "off",
  });
  const trouble = el("output", { role: "alert" });
  const show = async (event) => {
    event.preventDefault();
    if (!field.value.trim()) return;
    try {
      app.add(await asked(field.value));
      trouble.textContent = "";
    } catch (error) {
      trouble.textContent = error.message;
    }
  };
  return el(
    "form",
    { class: "playground", onsubmit: show },
    field,
    el("button", { type: "submit", text: "Show it" }),
    trouble,
  );
}

/** Ask the server that this page came from; its token is in the address. */
async function asked(text) {
  const token = new URLSearchParams(location.search).get("token") || "";
  const answer = await fetch("/expression", {
    method: "POST",
    headers: { "X-Pellucid-Token": token },
    body: JSON.stringify({ text, values: {} }),
  });
  const found = await answer.json().catch(() => ({ error: `The server answered ${answer.status}.` }));
  if (found.error) throw new Error(found.error);
  return found;
}
