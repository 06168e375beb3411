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
  for (const [id, value] of app.model.changed) told.set(`v${id}`, value);
  if (app.query) told.set("search", app.query);
  if (app.theme) told.set("theme", app.theme);
  try {
    history.replaceState(null, "", `#${told}`);
  } catch (error) {
    app.shareable = false;
  }
}
