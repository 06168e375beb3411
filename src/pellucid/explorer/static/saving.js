// The graph as a file of its own, for a document: the whole of it, with the colours that it has now.

const KEPT_STYLES = [
  ...["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "paint-order", "text-anchor"],
  ...["font-family", "font-size", "font-weight", "font-style"],
];

function savePicture(app) {
  const text = new XMLSerializer().serializeToString(pictureOfGraph(app.drawing));
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const link = el("a", { href: address, download: "graph.svg" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** A copy of the drawing, painted as a whole, that needs no style sheet. */
function pictureOfGraph(drawing) {
  const { left, top, right, bottom } = drawing.bounds;
  drawing.paint(true);
  const copy = drawing.svg.cloneNode(true);
  const originals = drawing.svg.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    for (const name of KEPT_STYLES) element.setAttribute(name, style.getPropertyValue(name));
  });
  drawing.draw();
  copy.querySelector(":scope > g").removeAttribute("transform");
  const sizes = {
    viewBox: `${left} ${top} ${right - left} ${bottom - top}`,
    width: right - left,
    height: bottom - top,
  };
  for (const [name, value] of Object.entries(sizes)) copy.setAttribute(name, value);
  return copy;
}
