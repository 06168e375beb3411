// Boxes in layers, inputs before results, with few crossings. Own code: 5 000 boxes take some ten milliseconds.

const MOST_BENDS = 4000; // places where long edges pass a layer; with more of them long edges run straight

/** Positions for boxes 0..n-1 with `edges` [[from, to], ...] and `sizes` [[width, height], ...].
 *  Returns centres, and for each edge the points it passes on its way. `across`: layers from left to right. */
function layered(count, edges, sizes, { across, gap, space }) {
  const rank = ranks(count, edges);
  const layers = [];
  const place = (id, layer) => (layers[layer] = layers[layer] || []).push(id);
  for (let id = 0; id < count; id++) place(id, rank[id]);
  const { links, bends, total } = withBends(count, edges, rank, place);
  const before = Array.from({ length: total }, () => []);
  const after = Array.from({ length: total }, () => []);
  for (const [a, b] of links) {
    after[a].push(b);
    before[b].push(a);
  }
  const sweeps = total > 3000 ? 4 : 10;
  reorder(layers, before, after, total, sweeps);
  const breadth = (id) => (id < count ? sizes[id][across ? 1 : 0] : 14);
  const side = spread(layers, before, after, total, breadth, space, sweeps);
  const depth = depths(layers, sizes, count, across, gap);
  const point = (id, along) => (across ? [along, side[id]] : [side[id], along]);
  const through = ([id, layer]) => [point(id, depth[layer].from), point(id, depth[layer].to)]; // straight past the boxes
  return {
    centres: Array.from({ length: count }, (_, id) => point(id, (depth[rank[id]].from + depth[rank[id]].to) / 2)),
    ways: bends.map((passed) => passed.flatMap(through)),
  };
}

/** The layer of each box: the longest way from an input; inputs stand right before their first use. */
function ranks(count, edges) {
  const after = Array.from({ length: count }, () => []);
  const waiting = new Int32Array(count);
  for (const [a, b] of edges) {
    after[a].push(b);
    waiting[b]++;
  }
  const given = Array.from(waiting, (many) => many === 0);
  const rank = new Int32Array(count);
  const ready = [];
  for (let id = 0; id < count; id++) if (given[id]) ready.push(id);
  for (let i = 0; i < ready.length; i++) {
    for (const next of after[ready[i]]) {
      rank[next] = Math.max(rank[next], rank[ready[i]] + 1);
      if (--waiting[next] === 0) ready.push(next);
    }
  }
  for (let id = 0; id < count; id++) {
    if (given[id] && after[id].length) rank[id] = Math.min(...after[id].slice(0, 5000).map((next) => rank[next])) - 1;
  }
  return rank;
}

/** Split edges over several layers into links from layer to layer, with a bend in each layer between. */
function withBends(count, edges, rank, place) {
  let total = count;
  const spans = edges.reduce((sum, [a, b]) => sum + Math.max(0, rank[b] - rank[a] - 1), 0);
  const links = [];
  const bends = edges.map(([a, b]) => {
    const passed = [];
    if (spans > MOST_BENDS) {
      if (rank[b] - rank[a] === 1) links.push([a, b]);
      return passed;
    }
    let last = a;
    for (let layer = rank[a] + 1; layer < rank[b]; layer++) {
      place(total, layer);
      links.push([last, total]);
      passed.push([total, layer]);
      last = total++;
    }
    links.push([last, b]);
    return passed;
  });
  return { links, bends, total };
}

/** Put each box near the mean place of its neighbours in the layer before, then after, again and again. */
function reorder(layers, before, after, total, sweeps) {
  const at = new Float64Array(total);
  const number = (layer) => layer.forEach((id, place) => (at[id] = place));
  layers.forEach(number);
  const mean = (ids, own) => (ids.length ? ids.reduce((sum, id) => sum + at[id], 0) / ids.length : own);
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const down = sweep % 2 === 0;
    const neighbours = down ? before : after;
    for (const layer of down ? layers : [...layers].reverse()) {
      if (layer.length < 2) continue;
      const wanted = new Map(layer.map((id) => [id, mean(neighbours[id], at[id])]));
      layer.sort((a, b) => wanted.get(a) - wanted.get(b) || at[a] - at[b]);
      number(layer);
    }
  }
}

/** Coordinates inside the layers: as near to the neighbours as the order and the sizes allow. */
function spread(layers, before, after, total, breadth, space, sweeps) {
  const side = new Float64Array(total);
  for (const layer of layers) {
    let edge = 0;
    for (const id of layer) {
      side[id] = edge + breadth(id) / 2;
      edge += breadth(id) + space;
    }
    for (const id of layer) side[id] -= edge / 2;
  }
  const pull = before.map((ids, id) => (ids.length + after[id].length < 2 ? 0.1 : 1)); // ends follow, so chains run straight
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      const wanted = layer.map((id) => {
        const near = sweep === sweeps - 1 ? [...before[id], ...after[id]] : (down ? before : after)[id];
        const all = near.reduce((sum, other) => sum + pull[other], 0);
        return near.length ? near.reduce((sum, other) => sum + pull[other] * side[other], 0) / all : side[id];
      });
      fit(layer, wanted, pull, breadth, space).forEach((where, i) => (side[layer[i]] = where));
    }
  }
  return side;
}

/** The positions nearest to those wanted (least squares, weighted by `pull`) that keep the order and the distances. */
function fit(layer, wanted, pull, breadth, space) {
  const offset = [0];
  for (let i = 1; i < layer.length; i++) {
    offset.push(offset[i - 1] + (breadth(layer[i - 1]) + breadth(layer[i])) / 2 + space);
  }
  const blocks = [];
  const mean = (block) => block.sum / block.weight;
  wanted.forEach((want, i) => {
    const weight = pull[layer[i]];
    let block = { sum: weight * (want - offset[i]), weight, many: 1 };
    while (blocks.length && mean(blocks[blocks.length - 1]) > mean(block)) {
      const last = blocks.pop();
      block = { sum: block.sum + last.sum, weight: block.weight + last.weight, many: block.many + last.many };
    }
    blocks.push(block);
  });
  const found = [];
  for (const block of blocks) {
    for (let i = 0; i < block.many; i++) found.push(mean(block) + offset[found.length]);
  }
  return found;
}

/** Where each layer begins and ends. */
function depths(layers, sizes, count, across, gap) {
  let edge = 0;
  return layers.map((layer) => {
    const deep = Math.max(0, ...layer.slice(0, 5000).map((id) => (id < count ? sizes[id][across ? 0 : 1] : 0)));
    const from = edge;
    edge += deep + gap;
    return { from, to: from + deep };
  });
}
