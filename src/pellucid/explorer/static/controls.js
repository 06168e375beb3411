// The controls around the graph: the head of the page, the zoom, the steps. They are made once.

/** Signs that not every font has. */
const SHAPES = {
  play: "M5,3L17,10L5,17z",
  pause: "M5,3h4v14h-4zM12,3h4v14h-4z",
  first: "M4,3h3v14h-3zM17,3v14L8,10z",
  last: "M13,3h3v14h-3zM3,3v14L12,10z",
  back: "M14,3v14L4,10z",
  next: "M6,3v14L16,10z",
  whole: "M3,8V3h5M12,3h5v5M17,12v5h-5M8,17H3v-5",
  theme: "M10,2.5a7.5,7.5 0 0,0 0,15z",
  save: "M10,3v9M6,8l4,4l4,-4M3,17h14",
};

/** The keys that do the same as the buttons: as a tooltip tells them, and as screen readers know them. */
const KEYS = {
  first: { told: "Home", key: "Home" },
  back: { told: "←", key: "ArrowLeft" },
  play: { told: "space", key: "Space" },
  next: { told: "→", key: "ArrowRight" },
  last: { told: "End", key: "End" },
};

function icon(name) {
  return svgEl(
    "svg",
    { viewBox: "0 0 20 20", class: `icon icon-${name}`, "aria-hidden": "true" },
    svgEl("path", { d: SHAPES[name] }),
  );
}

/** The picker or the title, the warnings, the search. */
function headOf(app) {
  app.picker = el(
    "select",
    { "aria-label": "Example", onchange: () => app.load(Number(app.picker.value), {}) },
    ...app.examples.map((example, i) => el("option", { value: i, text: example.title || `Graph ${i + 1}` })),
  );
  app.heading = el("h1", { text: app.title });
  app.searchField = el("input", {
    type: "search",
    class: "search",
    placeholder: "Search: name, op, nan, grad>1e3",
    "aria-label": "Search the nodes",
    title: "Search the nodes (/)",
    "aria-keyshortcuts": "/",
    oninput: () => app.find(app.searchField.value),
    onkeydown: (event) => event.key === "Enter" && app.nextHit(),
  });
  app.found = el("output", { class: "found", "aria-live": "polite" });
  app.badButtons = el("span", { class: "bad-buttons" });
  app.themeButton = el(
    "button",
    {
      type: "button",
      class: "theme",
      "aria-label": "Light or dark",
      title: "Light or dark",
      onclick: () => app.setTheme(app.isDark() ? "light" : "dark"),
    },
    icon("theme"),
  );
  const several = app.examples.length > 1 || app.asks === "server";
  return el(
    "header",
    {},
    several ? el("h1", { class: "brand", text: "Pellucid" }) : null,
    several ? app.picker : app.heading,
    app.badButtons,
    el("span", { class: "search-box" }, app.searchField, app.found),
    app.quizPanel ? app.quizPanel.button : null,
    app.themeButton,
  );
}

/** Larger, smaller, all of it. */
function zoomBarOf(app) {
  const button = (sign, label, act) =>
    el("button", { type: "button", "aria-label": label, title: label, onclick: act }, sign);
  return el(
    "div",
    { class: "zoom-bar" },
    button("+", "Zoom in", () => app.drawing.zoom(1.3)),
    button("−", "Zoom out", () => app.drawing.zoom(1 / 1.3)),
    button(icon("whole"), "Show everything", () => app.drawing.fit(true)),
    button(icon("save"), "Save the picture as SVG", () => savePicture(app)),
  );
}

/** Forward or backward, and the steps. */
function transportOf(app) {
  const button = (shape, label, name, act) => {
    const { told, key } = KEYS[name];
    const named = { class: name, "aria-label": label, title: `${label} (${told})`, "aria-keyshortcuts": key };
    return el("button", { type: "button", ...named, onclick: act }, icon(shape));
  };
  app.modes = ["forward", "backward"].map((mode) =>
    el("button", {
      type: "button",
      class: `mode ${mode}`,
      text: mode === "forward" ? "Forward →" : "← Backward",
      title: `The ${mode} pass (${mode[0]})`,
      "aria-keyshortcuts": mode[0],
      "aria-pressed": "false",
      onclick: () => app.setMode(mode),
    }),
  );
  app.slider = el("input", {
    type: "range",
    class: "step-slider",
    min: 0,
    step: 1,
    "aria-label": "Step",
    oninput: () => app.goTo(Number(app.slider.value), true),
  });
  app.playButton = button("play", "Play", "play", () => app.play());
  app.count = el("span", { class: "count" });
  return el(
    "div",
    { class: "transport", role: "group", "aria-label": "Steps" },
    el("div", { class: "modes", role: "group", "aria-label": "Direction" }, ...app.modes),
    el(
      "div",
      { class: "buttons" },
      button("first", "First step", "first", () => app.goTo(0, true)),
      button("back", "Step back", "back", () => app.advance(-1)),
      app.playButton,
      button("next", "Next step", "next", () => app.advance(1)),
      button("last", "Last step", "last", () => app.goTo(app.model.steps(app.mode), true)),
    ),
    app.slider,
    app.count,
    app.predictor.button,
  );
}
