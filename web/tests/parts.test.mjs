// Parts of the page that need no browser: the layout of trees, the choice in the address, numbers for people.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { folder } from "./support.mjs";

// The choice reads the address and the page when it is loaded.
globalThis.location = { hash: "" };
globalThis.document = { getElementById: () => null };

async function load(name) {
  const outfile = join(folder(), `${name.replaceAll("/", "-")}.mjs`);
  await build({ entryPoints: [fileURLToPath(new URL(`../src/${name}.ts`, import.meta.url))], outfile, bundle: true, format: "esm", platform: "node", logLevel: "error" });
  return import(outfile);
}

const { layOut, firstBehind, nodeAt, pathOf, nodeOf, sameNode, widthsOfChange, matchedWidth } = await load("flame/layout");
const { parseChoice, fragmentOf, DEFAULT } = await load("choice");
const format = await load("format");
const { squarify } = await load("treemap");
const { clean } = await load("names");

/** A random tree in depth-first order, with whole numbers. */
function tree(size, random) {
  const node_depth = [0];
  for (let node = 1; node < size; node += 1) node_depth.push(1 + Math.floor(random() * Math.min(node_depth[node - 1] + 1, 40)));
  const node_value = new Array(size).fill(0);
  const path = [];
  for (let node = 0; node < size; node += 1) {
    path.length = node_depth[node];
    path.push(node);
    const own = 1 + Math.floor(random() * 100);
    for (const above of path) node_value[above] += own;
  }
  return { node_depth, node_value };
}

function generator(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

test("every node lies inside its parent, beside its siblings, and is found again", () => {
  for (let seed = 1; seed <= 20; seed += 1) {
    const made = tree(3000, generator(seed));
    const layout = layOut(made, made.node_value);
    assert.equal(layout.total, made.node_value[0]);
    for (let node = 1; node < layout.size; node += 1) {
      const above = layout.parent[node];
      assert.equal(layout.depth[above], layout.depth[node] - 1);
      assert.ok(layout.start[node] >= layout.start[above] && layout.start[node] + layout.width[node] <= layout.start[above] + layout.width[above]);
      assert.equal(nodeAt(layout, layout.depth[node], layout.start[node] + layout.width[node] / 2), node);
      assert.equal(nodeOf(layout, pathOf(layout, node)), node);
    }
    for (let row = 0; row < layout.rows; row += 1) {
      for (let place = layout.rowStart[row] + 1; place < layout.rowStart[row + 1]; place += 1) {
        const [before, after] = [layout.rowNodes[place - 1], layout.rowNodes[place]];
        assert.ok(layout.start[before] + layout.width[before] <= layout.start[after]);
      }
      assert.equal(firstBehind(layout, row, layout.total), layout.rowStart[row + 1]);
    }
  }
});

test("depths that jump are taken for one deeper, not for a crash", () => {
  const layout = layOut({ node_depth: [0, 5, 9, 1] }, [3, 2, 1, 1]);
  assert.deepEqual([...layout.depth], [0, 1, 2, 1]);
});

test("a comparison is as wide as the larger side of each node, and what went has a width", () => {
  const widths = widthsOfChange({ node_depth: [0, 1, 1, 2], node_before: [10, 10, 0, 0], node_after: [7, 0, 7, 4] });
  assert.deepEqual([...widths], [17, 10, 7, 4]);
});

test("what is found is counted once, however deep it is found again", () => {
  const layout = layOut({ node_depth: [0, 1, 2, 1] }, [10, 6, 6, 4]);
  assert.equal(matchedWidth(layout, (node) => node === 1 || node === 2), 6);
});

test("a node is found again in a tree that has grown, by the functions that lead to it", () => {
  const made = (depths, names) => ({ layout: layOut({ node_depth: depths }, depths.map(() => 1)), nameOf: (node) => names[node] });
  const before = made([0, 1, 2, 1, 2], ["all", "main", "read", "work", "read"]);
  const now = made([0, 1, 2, 2, 3, 1, 2], ["all", "work", "sort", "read", "copy", "main", "read"]);
  assert.deepEqual([0, 1, 2, 3, 4].map((node) => sameNode(before, node, now)), [0, 5, 6, 1, 3]);
  assert.deepEqual([2, 4, -1, 9].map((node) => sameNode(now, node, before)), [-1, -1, -1, -1]);
});

test("the choice survives the address, and nonsense in the address does not", () => {
  const made = { ...DEFAULT, view: "flame", from: 12, to: 99_999_999_999, at: "peak", filters: ["inside:contains:a&b=c#d", "size:1.."], hide: ["x y"], merge: true, theme: "dark" };
  assert.deepEqual(parseChoice(`#${fragmentOf(made)}`), made);
  assert.deepEqual(parseChoice("#view=nothing&from=-3&to=1e9&metric=__proto__&source=abc"), DEFAULT);
  assert.equal(fragmentOf(DEFAULT), "");
});

test("numbers are written as the command line writes them", () => {
  assert.deepEqual([0, 1023, 1024, 12_082_536, 1_048_575].map(format.bytes), ["0 B", "1023 B", "1.0 KiB", "11.5 MiB", "1.0 MiB"]);
  assert.deepEqual([0, 999, 1_000, 248_400_000, 1_090_000_000, 185e9].map(format.duration), ["0s", "999ns", "1.0µs", "248.4ms", "1.09s", "3m 05s"]);
  assert.equal(format.count(1_098_080), "1,098,080");
  assert.equal(format.instant(248_430_112, 1), "248.430112ms");
  assert.deepEqual(["4 KiB", "1.5m", "100", "x"].map(format.parseBytes), [4096, 1_572_864, 100, null]);
  assert.deepEqual(["10ms", "2s", "250", "1y"].map(format.parseDuration), [10_000_000, 2_000_000_000, 250, null]);
});

test("rectangles of a treemap lie inside their parents, do not overlap, and have the right areas", () => {
  const nodes = [{ parent: null, size: 100 }, ...[40, 30, 20, 10].map((size) => ({ parent: 0, size })), { parent: 1, size: 25 }, { parent: 1, size: 15 }];
  const cells = squarify(nodes, 0, 800, 600);
  assert.equal(cells.length, nodes.length);
  const cell = (node) => cells.find((each) => each.node === node);
  for (const [index, node] of nodes.entries()) {
    if (node.parent === null) continue;
    const [inner, outer] = [cell(index), cell(node.parent)];
    assert.ok(inner.x >= outer.x && inner.y >= outer.y && inner.x + inner.width <= outer.x + outer.width + 1e-6 && inner.y + inner.height <= outer.y + outer.height + 1e-6);
  }
  const area = (each) => each.width * each.height;
  assert.ok(Math.abs(area(cell(1)) / area(cell(4)) - 4) < 0.01);
});

test("one frame of a treemap stands for those that keep hardly anything but one another, and never for too much", () => {
  const chain = [1000, 990, 989, 985, 700, 285].map((size, index) => ({ parent: index === 0 ? null : index === 5 ? 3 : index - 1, size }));
  const cells = squarify(chain, 0, 800, 600);
  assert.deepEqual(cells.map(({ node, around }) => [node, around]).sort(([a], [b]) => a - b), [[0, []], [3, [1, 2]], [4, []], [5, []]]);
  // Each keeps 98% of the one around it, but the tenth not of the first.
  const thinning = Array.from({ length: 10 }, (_, index) => ({ parent: index === 0 ? null : index - 1, size: 1000 * 0.981 ** index }));
  for (const { node, around } of squarify(thinning, 0, 800, 600)) if (around.length) assert.ok(thinning[node].size >= thinning[around[0]].size * 0.95);
});

test("characters that turn or break the text around them are replaced", () => {
  assert.equal(clean("a\u202eb\u0000c\nd"), "a\ufffdb\ufffdc\ufffdd");
  assert.equal(clean("<script>äö"), "<script>äö");
});
