// Where every node of a tree lies. Nodes come in depth-first order, so one pass is enough; what is kept are flat arrays, and per depth the nodes from
// left to right, so that drawing and finding take time for what is visible only.
import type { Tree } from "../answers";

export interface Layout {
  readonly size: number;
  /** In the tree's own unit, bytes or blocks: node `i` covers `start[i]` to `start[i] + width[i]` of `total`. */
  readonly start: Float64Array;
  readonly width: Float64Array;
  readonly parent: Int32Array;
  /** Which child of its parent a node is. */
  readonly ordinal: Int32Array;
  readonly depth: Int32Array;
  /** The first node behind the node's whole subtree. */
  readonly end: Int32Array;
  /** Nodes of depth `d`, from left to right: `rowNodes[rowStart[d] .. rowStart[d + 1]]`. */
  readonly rowStart: Int32Array;
  readonly rowNodes: Int32Array;
  readonly rows: number;
  readonly total: number;
}

export function layOut(tree: Tree, widths: ArrayLike<number>): Layout {
  const size = tree.node_depth.length;
  const start = new Float64Array(size);
  const width = new Float64Array(size);
  const parent = new Int32Array(size).fill(-1);
  const ordinal = new Int32Array(size);
  const depth = Int32Array.from(tree.node_depth);
  const end = new Int32Array(size).fill(size);
  const children = new Int32Array(size);
  const filled = new Float64Array(size);
  const path: number[] = [];
  let rows = 0;
  for (let node = 0; node < size; node += 1) {
    const level = Math.min(depth[node], path.length);
    depth[node] = level;
    while (path.length > level) end[path.pop()!] = node;
    const above = level > 0 ? path[level - 1] : -1;
    parent[node] = above;
    width[node] = Math.max(0, widths[node]);
    if (above >= 0) {
      start[node] = filled[above];
      filled[above] += width[node];
      ordinal[node] = children[above];
      children[above] += 1;
    }
    filled[node] = start[node];
    path.push(node);
    rows = Math.max(rows, level + 1);
  }
  const rowStart = new Int32Array(rows + 1);
  for (let node = 0; node < size; node += 1) rowStart[depth[node] + 1] += 1;
  for (let row = 0; row < rows; row += 1) rowStart[row + 1] += rowStart[row];
  const rowNodes = new Int32Array(size);
  const next = rowStart.slice();
  for (let node = 0; node < size; node += 1) rowNodes[next[depth[node]]++] = node;
  return { size, start, width, parent, ordinal, depth, end, rowStart, rowNodes, rows, total: size ? width[0] : 0 };
}

export interface Named {
  layout: Layout;
  /** The name of a node. */
  nameOf: (node: number) => string;
}

/** The node that is called from the same functions in another tree, or −1. */
export function sameNode(before: Named, node: number, now: Named): number {
  if (node < 0 || node >= before.layout.size || now.layout.size === 0) return -1;
  const names: string[] = [];
  for (let at = node; before.layout.parent[at] >= 0; at = before.layout.parent[at]) names.push(before.nameOf(at));
  let found = 0;
  for (let name = names.pop(); name !== undefined; name = names.pop()) {
    const { end } = now.layout;
    let child = found + 1;
    while (child < end[found] && now.nameOf(child) !== name) child = end[child];
    if (child >= end[found]) return -1;
    found = child;
  }
  return found;
}

/** Of a comparison: as wide as the larger of before and after, summed up from the leaves, so that what went away is still seen. */
export function widthsOfChange(tree: Tree): Float64Array {
  const before = tree.node_before ?? [];
  const after = tree.node_after ?? [];
  const size = tree.node_depth.length;
  const ownBefore = Float64Array.from(before);
  const ownAfter = Float64Array.from(after);
  const path: number[] = [];
  const above = new Int32Array(size).fill(-1);
  for (let node = 0; node < size; node += 1) {
    path.length = Math.min(path.length, tree.node_depth[node]);
    if (path.length) {
      above[node] = path[path.length - 1];
      ownBefore[above[node]] -= before[node];
      ownAfter[above[node]] -= after[node];
    }
    path.push(node);
  }
  const widths = new Float64Array(size);
  for (let node = size - 1; node >= 0; node -= 1) {
    widths[node] += Math.max(0, ownBefore[node], ownAfter[node]);
    if (above[node] >= 0) widths[above[node]] += widths[node];
  }
  return widths;
}

/** The place in `rowNodes` of the first node of a row that ends behind `x`. */
export function firstBehind(layout: Layout, row: number, x: number, from = layout.rowStart[row]): number {
  let low = from;
  let high = layout.rowStart[row + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    const node = layout.rowNodes[middle];
    if (layout.start[node] + layout.width[node] > x) high = middle;
    else low = middle + 1;
  }
  return low;
}

export function nodeAt(layout: Layout, row: number, x: number): number {
  if (row < 0 || row >= layout.rows) return -1;
  const place = firstBehind(layout, row, x);
  if (place >= layout.rowStart[row + 1]) return -1;
  const node = layout.rowNodes[place];
  return layout.start[node] <= x ? node : -1;
}

/** "2.0.1": the third child of the root, its first, its second. The same tree gives the same node. */
export function pathOf(layout: Layout, node: number): string {
  const ordinals: number[] = [];
  for (let each = node; layout.parent[each] >= 0; each = layout.parent[each]) ordinals.push(layout.ordinal[each]);
  return ordinals.reverse().join(".");
}

export function nodeOf(layout: Layout, path: string): number {
  if (layout.size === 0 || path === "") return 0;
  let node = 0;
  for (const part of path.split(".")) {
    const wanted = Number(part);
    const child = childOf(layout, node, wanted);
    if (child < 0) return node;
    node = child;
  }
  return node;
}

export function childOf(layout: Layout, node: number, ordinal: number): number {
  let child = node + 1;
  for (let seen = 0; child < layout.end[node]; child = layout.end[child], seen += 1) if (seen === ordinal) return child;
  return -1;
}

/** The share of the whole that lies below matching nodes, each counted once. */
export function matchedWidth(layout: Layout, matches: (node: number) => boolean): number {
  let sum = 0;
  for (let node = 0; node < layout.size;) {
    if (matches(node)) {
      sum += layout.width[node];
      node = layout.end[node];
    } else node += 1;
  }
  return sum;
}

/** Whether a node leads to another. */
export function isAncestor(layout: Layout, above: number, node: number): boolean {
  return above <= node && node < layout.end[above];
}
