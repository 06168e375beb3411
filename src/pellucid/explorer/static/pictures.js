// Arrays as pictures: heat maps, histograms, curves.

/** Blue below zero, orange above, pale at zero; or pale to blue when all are of one sign. Grey-pink: not finite. */
function heatColour(value, low, high) {
  if (!Number.isFinite(value)) return "#d6006e";
  const reach = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const t = Math.max(-1, Math.min(1, value / reach));
  const mix = (from, to) => Math.round(from + (to - from) * Math.sqrt(Math.abs(t)));
  return t < 0
    ? `rgb(${mix(238, 20)},${mix(240, 90)},${mix(243, 200)})`
    : `rgb(${mix(238, 205)},${mix(240, 95)},${mix(243, 10)})`;
}

/** The cells of a summary: numbers by row and column, as far as they are known. */
function cellsOf(summary) {
  if (!summary) return null;
  if (summary.heat) {
    const { rows, columns, cells, low, high } = summary.heat;
    const bytes = atob(cells);
    const [from, to] = [num(low), num(high)];
    const values = Array.from(bytes, (byte) =>
      byte.charCodeAt(0) === 255 ? NaN : from + (byte.charCodeAt(0) / 254) * (to - from),
    );
    return { rows, columns, values, low: from, high: to };
  }
  if (!summary.numbers || summary.numbers.length < 2) return null;
  const values = summary.numbers.map(num);
  const columns = summary.shape[summary.shape.length - 1] || 1;
  const finite = values.filter(Number.isFinite);
  return { rows: values.length / columns, columns, values, low: Math.min(...finite), high: Math.max(...finite) };
}

/** A heat map as a canvas of one pixel a cell, enlarged by CSS. */
function heatMap(summary, label) {
  const found = cellsOf(summary);
  if (!found) return null;
  const { rows, columns, values, low, high } = found;
  const canvas = el("canvas", { width: columns, height: rows, class: "heat", role: "img", "aria-label": label });
  const size = Math.max(4, Math.min(24, Math.floor(300 / columns), Math.floor(200 / rows)));
  canvas.style.width = `${columns * size}px`;
  canvas.style.height = `${rows * size}px`;
  const context = canvas.getContext("2d");
  values.forEach((value, i) => {
    context.fillStyle = heatColour(value, low, high);
    context.fillRect(i % columns, Math.floor(i / columns), 1, 1);
  });
  return canvas;
}

/** A small heat map inside a box of the graph: at most 12 by 5 cells. */
function thumbnail(summary, x, y, width, height) {
  const found = cellsOf(summary);
  if (!found) return null;
  const rows = Math.min(found.rows, 5);
  const columns = Math.min(found.columns, 12);
  const group = svgEl("g", { class: "thumb" });
  const [w, h] = [width / columns, height / rows];
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      const at = Math.floor((r * found.rows) / rows) * found.columns + Math.floor((c * found.columns) / columns);
      group.append(
        svgEl("rect", {
          x: x + c * w,
          y: y + r * h,
          width: w + 0.3,
          height: h + 0.3,
          fill: heatColour(found.values[at], found.low, found.high),
        }),
      );
    }
  }
  return group;
}

/** How the numbers of an array are spread. */
function histogram(summary) {
  if (!summary || !summary.histogram) return null;
  const most = Math.max(...summary.histogram, 1);
  const width = 240 / summary.histogram.length;
  const bars = summary.histogram.map((many, i) => {
    const height = (many / most) * 60;
    return `M${i * width},62v${-height}h${width - 1}v${height}z`;
  });
  return svgEl(
    "svg",
    { class: "histogram", viewBox: "0 0 240 78", role: "img", "aria-label": "histogram of the values" },
    svgEl("path", { d: bars.join(""), class: "bars" }),
    svgEl("text", { x: 0, y: 75, text: shown(num(summary.min)) }),
    svgEl("text", { x: 240, y: 75, "text-anchor": "end", text: shown(num(summary.max)) }),
  );
}

/** The numbers of a small array as a table, when there are few enough to read. */
function numberTable(summary) {
  if (!summary || !summary.numbers || summary.numbers.length < 2 || summary.numbers.length > 24) return null;
  const columns = summary.shape[summary.shape.length - 1] || 1;
  const table = el("table", { class: "numbers" });
  for (let start = 0; start < summary.numbers.length; start += columns) {
    const row = el("tr");
    for (const value of summary.numbers.slice(start, start + columns))
      row.append(el("td", { text: shown(num(value)) }));
    table.append(row);
  }
  return table;
}

/** A line through values, broken where one is not finite. */
function pathThrough(values, x, y) {
  const points = values.map((value, i) => (Number.isFinite(value) ? `${x(i)},${y(value)}` : null));
  return points.map((point, i) => (point ? `${i && points[i - 1] ? "L" : "M"}${point}` : "")).join("");
}

/** Some curves over the steps of a run, on a logarithmic scale where they span much; `at` marks a step. */
function curves(series, at, label) {
  const [width, height, left, bottom] = [480, 170, 66, 20];
  const every = series.flatMap((each) => each.values).filter((value) => Number.isFinite(value));
  const positive = every.filter((value) => value > 0);
  const smallest = Math.min(...positive);
  const logarithmic = positive.length > every.length * 0.5 && Math.max(...every) / smallest > 50;
  const scale = (value) => (logarithmic ? Math.log10(Math.max(value, smallest)) : value);
  const low = scale(logarithmic ? smallest : Math.min(...every, 0));
  const high = Math.max(scale(Math.max(...every)), low + 1e-12);
  const many = Math.max(...series.map((each) => each.values.length), 2);
  const x = (i) => left + (i / (many - 1)) * (width - left - 8);
  const y = (value) => 10 + (1 - (scale(value) - low) / (high - low)) * (height - 10 - bottom);
  const picture = svgEl("svg", {
    class: "curves",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": label,
  });
  for (const part of [0, 0.5, 1]) {
    const value = low + part * (high - low);
    const line = 10 + (1 - part) * (height - 10 - bottom);
    picture.append(
      svgEl("path", { d: `M${left},${line}H${width - 8}`, class: "grid" }),
      svgEl("text", { x: left - 6, y: line + 4, "text-anchor": "end", text: shown(logarithmic ? 10 ** value : value) }),
    );
  }
  series.forEach((each, which) => {
    const d = pathThrough(
      each.values,
      (i) => x(i).toFixed(1),
      (value) => y(value).toFixed(1),
    );
    picture.append(svgEl("path", { d, class: `curve curve-${which % 6}` }));
  });
  picture.append(
    svgEl("path", { d: `M${x(at)},6V${height - bottom}`, class: "marker" }),
    svgEl("text", { x: left, y: height - 4, text: `step 0${logarithmic ? " (logarithmic scale)" : ""}` }),
    svgEl("text", { x: width - 8, y: height - 4, "text-anchor": "end", text: String(many - 1) }),
  );
  return picture;
}

/** A curve, the point we are at, and the tangent there with its triangle: one to the right, so much up or down. */
function tangentPicture(curve, x, y, slope, label) {
  const [width, height, edge] = [300, 130, 10];
  if (curve.length < 2) return null;
  const xs = curve.map(([at]) => at);
  const ys = curve.map(([, value]) => value);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys, y), Math.max(...ys, y)];
  const across = (at) => edge + ((at - left) / (right - left || 1)) * (width - 2 * edge);
  const tall = Math.max(high - low, 1e-6 * Math.max(1, Math.abs(y))); // differences that are only rounding stay flat
  const up = (value) => height - 24 - (0.5 + (value - (low + high) / 2) / tall) * (height - 40);
  const point = (at, value) => `${across(at).toFixed(1)},${up(value).toFixed(1)}`;
  const reach = (right - left) / 4;
  const line = `M${point(x - reach, y - slope * reach)}L${point(x + reach, y + slope * reach)}`;
  const triangle = `M${point(x, y)}H${across(x + reach).toFixed(1)}V${up(y + slope * reach).toFixed(1)}z`;
  return svgEl(
    "svg",
    { class: "tangent", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    svgEl("path", { d: triangle, class: "triangle" }),
    svgEl("path", { d: `M${curve.map(([at, value]) => point(at, value)).join("L")}`, class: "curve curve-0" }),
    svgEl("path", { d: line, class: "curve curve-1" }),
    svgEl("circle", { cx: across(x), cy: up(y), r: 4, class: "here" }),
    svgEl("text", { x: edge, y: height - 6, text: shown(Number(left.toPrecision(3))) }),
    svgEl("text", { x: width - edge, y: height - 6, "text-anchor": "end", text: shown(Number(right.toPrecision(3))) }),
  );
}
