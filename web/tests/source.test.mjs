// Source code: each line's memory is what `report --by line` says, and a saved page has the text only if it was asked for.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { api, choiceOf, folder, go, highwater, json, page, picture, recording, settled, viewer } from "./support.mjs";

const made = folder();
const file = join(made, "sourced.rs");
writeFileSync(file, `fn keep(size: usize) -> Vec<u8> {
    Vec::with_capacity(size)
}

#[inline(never)]
fn fill(rows: &mut Vec<Vec<u8>>) {
    for size in 1..50 {
        rows.push(keep(size * 100));
    }
    rows.push(vec![1; 70_000]);
    rows.push(vec![2; 30_000]);
}

fn main() {
    let mut rows = Vec::with_capacity(100);
    fill(&mut rows);
    std::mem::forget(rows);
}
`);
execFileSync("rustc", ["--edition", "2024", "-O", "-g", file, "-o", join(made, "sourced")], { stdio: "pipe" });
highwater("record", "--force", "-o", recording("sourced.hw"), "--", join(made, "sourced"));
const view = await viewer([recording("sourced.hw")], { environment: { HIGHWATER_EDITOR: "", VISUAL: "", EDITOR: "vi" } });

/** What the command line says of the lines of the file. */
const reported = new Map(json("report", "sourced.hw", "--by", "line").lines.flatMap((row) => {
  const { name } = row;
  return name?.startsWith(`${file}:`) ? [[Number(name.slice(file.length + 1)), row]] : [];
}));

test("each line has the bytes and blocks that the table by line has", async () => {
  const answer = await api(view, `source?file=${encodeURIComponent(file)}`);
  assert.equal(answer.text, readFileSync(file, "utf8"));
  assert.ok(reported.size >= 3, "lines are known");
  const own = answer.lines.filter((line) => line.figures.self > 0);
  assert.deepEqual(own.map((line) => [line.line, line.figures.self, line.figures.blocks]), [...reported].filter(([, row]) => row.live_bytes > 0).sort(([a], [b]) => a - b).map(([line, row]) => [line, row.live_bytes, row.live_blocks]));
  for (const { line, figures } of answer.lines) assert.deepEqual([figures.total, figures.total_blocks], [reported.get(line).inclusive.live_bytes, reported.get(line).inclusive.live_blocks], `line ${line}`);
  const main = answer.lines.find((line) => line.line === 16);
  assert.ok(main.figures.total >= 170_000 && main.figures.self === 0, "the call in main has what it leads to");
});

test("a frame's source opens beside its stack, with the memory of the lines", async () => {
  const tab = await page(view, "view=table");
  await tab.locator(".table-row", { hasText: "fill" }).first().click();
  await settled(tab);
  await tab.keyboard.press("s");
  await settled(tab);
  const [, path, line] = /^(.*):(\d+)$/.exec(choiceOf(tab).get("source_file"));
  assert.equal(path, file);
  assert.equal(await tab.locator(".source-line.chosen").getAttribute("data-line"), line);
  await tab.getByRole("button", { name: "self", exact: true }).click();
  await settled(tab);
  const shown = await tab.$$eval(".source-line[data-value]", (lines) => lines.map((each) => [Number(each.dataset.line), Number(each.dataset.value), Number(each.dataset.blocks), each.querySelector("code").textContent]));
  const text = readFileSync(file, "utf8").split("\n");
  for (const [number, value, blocks, code] of shown) {
    assert.equal(value, reported.get(number)?.live_bytes ?? 0, `line ${number}`);
    assert.equal(blocks, reported.get(number)?.live_blocks ?? 0, `line ${number}`);
    assert.equal(code, text[number - 1]);
  }
  assert.ok(shown.some(([number]) => number === 10) && shown.some(([number]) => number === 11));
  await go(tab, `view=table&source_self=1&source_file=${encodeURIComponent(`${file}:1`)}`);
  await tab.getByRole("button", { name: "Next line with memory" }).click();
  await settled(tab);
  const first = shown.filter(([number, value]) => value > 0 && number > 1)[0][0];
  // No question is asked for another line of the same file: the address changes on its own.
  await tab.waitForURL((url) => new URLSearchParams(url.hash.slice(1)).get("source_file") === `${file}:${first}`, { timeout: 5000 });
  await picture(tab, "source");
  // One that needs a terminal is not started.
  await tab.getByRole("button", { name: "Open in editor" }).click();
  await tab.locator(".source-panel .problem", { hasText: "no editor is configured" }).waitFor();
  assert.match(await tab.locator(".source-panel .problem").textContent(), /--editor 'code -g \{file\}:\{line\}'/);
  await tab.keyboard.press("Escape");
  await settled(tab);
  assert.equal(await tab.locator(".source-panel").count(), 0);
  await tab.done();
});

test("source lines follow A, the window and a comparison", async () => {
  const tab = await page(view);
  const values = () => tab.$$eval(".source-line[data-value]", (lines) => Object.fromEntries(lines.map((each) => [each.dataset.line, Number(each.dataset.value)])));
  const lines = (document) => Object.fromEntries(document.lines.flatMap((row) => (row.name?.startsWith(`${file}:`) ? [[row.name.slice(file.length + 1), row]] : [])));
  const panel = `source_self=1&source_file=${encodeURIComponent(`${file}:10`)}`;
  // All but the last of the program's blocks.
  const blocks = (await api(view, "blocks?sort=time&order=asc&limit=1000")).blocks.filter((block) => block.stack.some((frame) => frame.file === file));
  const middle = blocks.at(-2).allocated_ns;
  assert.ok(middle < blocks.at(-1).allocated_ns);
  await go(tab, `view=table&at=${middle}&${panel}`);
  const then = lines(json("report", "sourced.hw", "--by", "line", "--at", `${middle}ns`));
  for (const [line, value] of Object.entries(await values())) assert.equal(value, then[line]?.live_bytes ?? 0, `line ${line} at ${middle}`);
  await go(tab, `view=table&metric=allocated&from=1000&to=${middle}&${panel}`);
  const within = lines(json("report", "sourced.hw", "--by", "line", "--from", "1000ns", "--to", `${middle}ns`));
  const allocated = await values();
  assert.ok(Object.keys(allocated).length >= 3);
  for (const [line, value] of Object.entries(allocated)) assert.equal(value, within[line]?.allocated_bytes ?? 0, `line ${line} in the window`);
  await go(tab, `view=compare&at=0&b=end&other=0&${panel}`);
  const changed = await values();
  assert.ok(Object.keys(changed).length >= 3);
  for (const [line, value] of Object.entries(changed)) assert.equal(value, reported.get(Number(line))?.live_bytes ?? 0, `line ${line}, compared`);
  await tab.done();
});

test("a stack's frame, and the flame graph, lead to the source; a file that is not named is not shown", async () => {
  const tab = await page(view, "view=table");
  await tab.locator(".table-row", { hasText: "fill" }).first().click();
  await settled(tab);
  await tab.locator(".stack .source-link", { hasText: "sourced.rs:16" }).first().click();
  await settled(tab);
  assert.equal(await tab.locator(".source-line.chosen code").textContent(), "    fill(&mut rows);");
  await tab.goBack();
  await settled(tab);
  assert.equal(await tab.locator(".source-panel").count(), 0, "the back button closes it");
  await go(tab, "view=flame&lines=1");
  await tab.locator(".flame-canvas").focus();
  // Down to the library call, and back to the line that makes it.
  for (let step = 0; step < 8; step += 1) await tab.keyboard.press("ArrowDown");
  assert.match(await tab.locator("#flame-details").textContent(), /with_capacity|alloc/);
  await tab.keyboard.press("ArrowUp");
  await tab.keyboard.press("s");
  await settled(tab);
  assert.match(choiceOf(tab).get("source_file"), /sourced\.rs:2$/);
  await go(tab, "view=table&source_file=%2Fetc%2Fhostname:1");
  assert.match(await tab.locator(".source-panel").textContent(), /no frame of this source/);
  assert.equal(await tab.locator(".source-line").count(), 0);
  await tab.done();
});

test("the source is resized, and stands below the view in a narrow window", async () => {
  const wide = await page(view, `view=table&source_file=${encodeURIComponent(`${file}:8`)}`);
  const width = async () => Math.round((await wide.locator(".source-panel").boundingBox()).width);
  const before = await width();
  const separator = wide.getByRole("separator", { name: "Width of the source" });
  await separator.focus();
  await wide.keyboard.press("ArrowRight");
  await wide.waitForFunction((old) => Math.round(document.querySelector(".source-panel").getBoundingClientRect().width) === old - 20, before);
  const box = await separator.boundingBox();
  await wide.mouse.move(box.x + 3, box.y + 40);
  await wide.mouse.down();
  await wide.mouse.move(box.x - 97, box.y + 40, { steps: 3 });
  await wide.mouse.up();
  assert.ok((await width()) > before);
  await wide.done();

  const narrow = await page(view, `view=table&source_file=${encodeURIComponent(`${file}:8`)}`, { viewport: { width: 640, height: 700 } });
  const [panel, shown] = await Promise.all([narrow.locator(".source-panel").boundingBox(), narrow.locator("main.view").boundingBox()]);
  assert.ok(panel.x === 0 && panel.width === 640 && panel.y >= shown.y + shown.height - 1 && panel.y + panel.height <= 700, JSON.stringify([panel, shown]));
  assert.ok(shown.height > 100, "the view is still there");
  assert.equal(await narrow.evaluate(() => document.documentElement.scrollWidth), 640);
  await narrow.locator(".source-line.chosen").waitFor();
  await narrow.done();
});

test("the flame graph splits a function by line, and its sums stay exact", async () => {
  const merged = await api(view, "tree?least=0");
  const split = await api(view, "tree?least=0&split=line");
  assert.equal(split.total, merged.total);
  const sums = (tree, key) => {
    const all = new Map();
    tree.node_name.forEach((name, node) => {
      if (!tree.library_calls?.includes(node) && tree.files[tree.node_file[node]] === file) all.set(key(tree, node), (all.get(key(tree, node)) ?? 0) + tree.node_value[node]);
    });
    return all;
  };
  const byName = (tree, node) => tree.names[tree.node_name[node]];
  assert.deepEqual([...sums(split, byName)].sort(), [...sums(merged, byName)].sort());
  // No function of the program calls itself: the nodes of a line have its total.
  const answer = await api(view, `source?file=${encodeURIComponent(file)}`);
  const byLine = sums(split, (tree, node) => tree.node_line[node]);
  for (const { line, figures } of answer.lines) assert.equal(byLine.get(line) ?? 0, figures.total, `line ${line}`);
  assert.ok(byLine.size > sums(merged, byName).size);
});

test("a saved page has the source only if it was asked for", async () => {
  const [without, with_] = ["without.html", "with.html"].map((name) => join(made, name));
  highwater("view", "sourced.hw", "--save", without);
  highwater("view", "sourced.hw", "--save", with_, "--with-source");
  assert.ok(!readFileSync(without, "utf8").includes("std::mem::forget(rows)"));
  assert.ok(readFileSync(with_, "utf8").includes("std::mem::forget(rows)"));
  const open = async (path) => {
    const tab = await page({ address: `file://${path}` }, "view=table");
    await tab.locator(".table-row", { hasText: "fill" }).first().click();
    await settled(tab);
    return tab;
  };
  const plain = await open(without);
  assert.equal(await plain.locator(".source-link").count(), 0);
  await plain.done();
  const full = await open(with_);
  await full.keyboard.press("s");
  await settled(full);
  await full.getByRole("button", { name: "self", exact: true }).click();
  await settled(full);
  for (const number of [10, 11]) {
    const line = full.locator(`.source-line[data-line="${number}"]`);
    assert.equal(Number(await line.getAttribute("data-value")), reported.get(number).live_bytes);
  }
  await full.done();
});
