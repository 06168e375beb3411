// Mouse and touch on the drawing.

/** Dragging moves the view, the wheel changes its scale, a click selects. */
function listen(drawing) {
  const { svg } = drawing;
  const fingers = new Map();
  let moved = 0;
  svg.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    moved = 0;
  });
  svg.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    if (event.pointerType === "mouse" && event.buttons === 0) return fingers.delete(event.pointerId); // let go outside
    const now = [event.clientX, event.clientY];
    moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    if (moved > 4) svg.setPointerCapture(event.pointerId);
    drag(drawing, fingers, event.pointerId, before, now);
    fingers.set(event.pointerId, now);
  });
  const up = (event) => fingers.delete(event.pointerId);
  svg.addEventListener("pointerup", up);
  svg.addEventListener("pointercancel", up);
  svg.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const corner = svg.getBoundingClientRect();
      drawing.zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - corner.left, event.clientY - corner.top);
    },
    { passive: false },
  );
  svg.addEventListener("click", (event) => {
    if (moved > 4) return;
    const target = event.target.closest("[data-node],[data-group]");
    if (!target) drawing.app.select(null);
    else if (target.dataset.group !== undefined) drawing.app.toggleGroup(Number(target.dataset.group));
    else drawing.app.select(Number(target.dataset.node));
  });
}

/** One finger moves, two fingers also change the scale. */
function drag(drawing, fingers, id, before, now) {
  const other = [...fingers.entries()].find(([key]) => key !== id);
  if (other) {
    const apart = (point) => Math.hypot(point[0] - other[1][0], point[1] - other[1][1]) || 1;
    const corner = drawing.svg.getBoundingClientRect();
    drawing.zoom(
      apart(now) / apart(before),
      (now[0] + other[1][0]) / 2 - corner.left,
      (now[1] + other[1][1]) / 2 - corner.top,
    );
    return;
  }
  drawing.shift = [drawing.shift[0] + now[0] - before[0], drawing.shift[1] + now[1] - before[1]];
  drawing.draw(true);
}
