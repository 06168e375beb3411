// Models are shown folded: one box per module, opened by a click.

const AT_FIRST = 24; // boxes

/** The groups around a node, outermost first. */
function groupsAround(model, id) {
  const groups = model.snapshot.groups || [];
  const chain = [];
  for (let group = model.nodes[id].group; group !== undefined && group !== null; group = groups[group].parent)
    chain.push(group);
  return chain.reverse();
}

/** Which modules are open at first: level by level, as long as the picture can be taken in. Of the first level that is
 *  too much for that, only the modules that hold others: a list of blocks says nothing while it is one box. */
function firstOpen(model) {
  const groups = model.snapshot.groups || [];
  const depth = [];
  for (const { parent } of groups) depth.push(parent === null ? 0 : depth[parent] + 1);
  const children = groups.map(() => 0);
  for (const { parent } of groups) if (parent !== null) children[parent]++;
  let open = new Set();
  const opened = (level, least) =>
    new Set([...open, ...groups.keys()].filter((id) => open.has(id) || (depth[id] === level && children[id] >= least)));
  const fits = (wanted) => folded(model, wanted).boxes.length <= AT_FIRST;
  for (let level = 0; level <= Math.max(-1, ...depth); level++) {
    const [all, holders] = [opened(level, 0), opened(level, 2)];
    if (!fits(all)) return fits(holders) ? holders : open;
    open = all;
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
