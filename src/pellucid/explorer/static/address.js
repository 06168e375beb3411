// The state of the page in its address, so that it can be shared: #example=sliders&mode=backward&step=2&v1=4

function readAddress() {
  const found = {};
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) found[key] = value;
  return found;
}

/** Write the state; where an address cannot be changed (a frame of a notebook) it is left alone. */
function writeAddress(app) {
  const told = new URLSearchParams();
  if (app.examples.length > 1) told.set("example", app.snapshot.id || String(app.index));
  told.set("mode", app.mode);
  told.set("step", app.step);
  if (app.selected !== null) told.set("node", app.selected);
  for (const [id, value] of app.model.changed)
    told.set(`v${id}`, value.times === undefined ? value : `x${value.times}`);
  if (app.lens) told.set("lens", app.lens);
  if (app.query) told.set("search", app.query);
  if (app.quizPanel && app.quizPanel.open) told.set("quiz", app.quizPanel.question.id);
  if (app.theme) told.set("theme", app.theme);
  try {
    history.replaceState(null, "", `#${told}`);
  } catch (error) {
    app.shareable = false;
  }
}

/** A change as the address has it: `v0=4`, `v0=1,2,3` for an array, `v0=x0.5` for a large one times a factor. */
function changeFrom(text, leaf) {
  if (!text) return null;
  const times = text.startsWith("x") && !leaf.value.numbers ? Number(text.slice(1)) : NaN;
  if (Number.isFinite(times)) return { times };
  const numbers = text.split(",").map(Number);
  const size = sizeOf(leaf.shape);
  if (numbers.length !== size || !numbers.every(Number.isFinite)) return null;
  return size === 1 ? numbers[0] : numbers;
}

/** Changes as a server takes them. */
function asPlain(changed) {
  return Object.fromEntries([...changed].map(([id, value]) => [id, typeof value === "number" ? [value] : value]));
}
