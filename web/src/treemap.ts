// A squarified treemap: rectangles as near to squares as their sizes allow, siblings together inside their parent.

export interface Cell {
  node: number;
  /** Those around it that keep hardly anything else: one frame stands for all of them. Outermost first. */
  around: number[];
  depth: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Sized {
  parent: number | null;
  size: number;
}

const HEAD = 15;
const EDGE = 2;
const LEAST = 3;
/** How much of a node its largest child must be to stand for it, and how much of the outermost. */
const NEARLY_ALL = 0.98;
const NEARLY_ALL_OF_THE_OUTERMOST = 0.95;

/** Cells of all nodes that are large enough to be seen, parents before their children. `root` fills the whole. */
export function squarify(nodes: Sized[], root: number, width: number, height: number): Cell[] {
  const children = new Map<number, number[]>();
  nodes.forEach((node, index) => {
    if (node.parent === null || node.parent === index) return;
    const list = children.get(node.parent);
    if (list) list.push(index);
    else children.set(node.parent, [index]);
  });
  for (const list of children.values()) list.sort((a, b) => nodes[b].size - nodes[a].size);
  const cells: Cell[] = [];
  const waiting: Cell[] = [{ node: root, around: [], depth: 0, x: 0, y: 0, width, height }];
  const seen = new Set<number>();
  while (waiting.length) {
    const cell = waiting.pop()!;
    if (seen.has(cell.node)) continue;
    seen.add(cell.node);
    for (let inner = children.get(cell.node)?.[0]; cell.depth > 0 && inner !== undefined && !seen.has(inner); inner = children.get(inner)?.[0]) {
      const { size } = nodes[inner];
      if (size < nodes[cell.node].size * NEARLY_ALL || size < nodes[cell.around[0] ?? cell.node].size * NEARLY_ALL_OF_THE_OUTERMOST) break;
      cell.around.push(cell.node);
      cell.node = inner;
      seen.add(inner);
    }
    cells.push(cell);
    const list = children.get(cell.node);
    const inner = { x: cell.x + EDGE, y: cell.y + HEAD, width: cell.width - 2 * EDGE, height: cell.height - HEAD - EDGE };
    if (!list || inner.width < LEAST || inner.height < LEAST) continue;
    const whole = Math.max(nodes[cell.node].size, list.reduce((sum, child) => sum + nodes[child].size, 0));
    if (whole > 0) placeRow(list, nodes, whole, inner, cell.depth + 1, waiting);
  }
  return cells;
}

function placeRow(list: number[], nodes: Sized[], whole: number, box: { x: number; y: number; width: number; height: number }, depth: number, cells: Cell[]): void {
  const scale = (box.width * box.height) / whole;
  let { x, y, width, height } = box;
  let next = 0;
  while (next < list.length && width >= LEAST && height >= LEAST) {
    const side = Math.min(width, height);
    let sum = 0;
    let count = 0;
    let worst = Infinity;
    while (next + count < list.length) {
      const area = nodes[list[next + count]].size * scale;
      const grown = sum + area;
      const largest = nodes[list[next]].size * scale;
      const ratio = Math.max((side * side * largest) / (grown * grown), (grown * grown) / (side * side * Math.max(area, 1e-9)));
      if (ratio > worst) break;
      worst = ratio;
      sum = grown;
      count += 1;
    }
    if (sum <= 0) break;
    const thick = Math.min(sum / side, Math.max(width, height));
    let offset = 0;
    for (let index = next; index < next + count; index += 1) {
      const long = ((nodes[list[index]].size * scale) / sum) * side;
      const cell = width >= height ? { x, y: y + offset, width: thick, height: long } : { x: x + offset, y, width: long, height: thick };
      if (cell.width >= LEAST && cell.height >= LEAST) cells.push({ node: list[index], around: [], depth, ...cell });
      offset += long;
    }
    if (width >= height) {
      x += thick;
      width -= thick;
    } else {
      y += thick;
      height -= thick;
    }
    next += count;
  }
}

/** The innermost cell under a point. */
export function cellAt(cells: Cell[], x: number, y: number): Cell | null {
  let found: Cell | null = null;
  for (const cell of cells) if (x >= cell.x && x < cell.x + cell.width && y >= cell.y && y < cell.y + cell.height && (!found || cell.depth >= found.depth)) found = cell;
  return found;
}
