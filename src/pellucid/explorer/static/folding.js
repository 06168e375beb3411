// Models are shown folded: one box per module, opened by a click.

/** The groups around a node, outermost first. */
function groupsAround(model, id) {
  const groups = model.snapshot.groups || [];
  const chain = [];
  for (let group = model.nodes[id].group; group !== undefined && group !== null; group = groups[group].parent)
    chain.push(group);
  return chain.reverse();
}

/** Which modules are open at first: as many, outermost first, as give a picture of some forty boxes. */
function firstOpen(model) {
  const groups = model.snapshot.groups || [];
  const open = new Set();
  const depth = groups.map((group) => (group.parent === null ? 0 : -1));
  groups.forEach((group, id) => (depth[id] = group.parent === null ? 0 : depth[group.parent] + 1));
  const deepest = Math.max(-1, ...depth);
  for (let level = 0; level <= deepest; level++) {
    const more = new Set(open);
    groups.forEach((group, id) => depth[id] === level && more.add(id));
    if (folded(model, more).boxes.length > 40) break;
    more.forEach((id) => open.add(id));
  }
  return open;
}

/** The boxes and lines to draw: nodes, or the outermost closed module around them. */
function folded(model, open) {
  const boxes = [];
  const boxOf = new Int32Array(model.nodes.length);
  const known = new Map();
  for (const node of model.nodes) {
    const closed = groupsAround(model, node.id).find((group) => !open.has(group));
    const key = closed === undefined ? `n${node.id}` : `g${closed}`;
    if (!known.has(key)) {
      known.set(key, boxes.length);
      boxes.push({
        key,
        node: closed === undefined ? node.id : null,
        group: closed === undefined ? null : closed,
        members: [],
      });
    }
    boxOf[node.id] = known.get(key);
    boxes[boxOf[node.id]].members.push(node.id);
  }
  const lines = [];
  const joined = new Map();
  for (const edge of model.edges) {
    const [a, b] = [boxOf[edge.from], boxOf[edge.to]];
    if (a === b) continue;
    const plain = boxes[a].node !== null && boxes[b].node !== null;
    const key = plain ? null : `${a}>${b}`;
    if (key && joined.has(key)) {
      joined.get(key).edges.push(edge);
      continue;
    }
    const line = { a, b, edges: [edge] };
    if (key) joined.set(key, line);
    lines.push(line);
  }
  return { boxes, lines, boxOf };
}
