// An expression of one's own, computed by the server that the page came from.

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
    if (!field.value.trim()) return field.focus();
    try {
      app.add(await asked("expression", { text: field.value, values: {} }));
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
