import assert from "node:assert/strict";
import { test } from "node:test";
import { api, choiceOf, page, recording, settled, viewer } from "./support.mjs";

const view = await viewer([recording("names.hw")]);
const names = (opened) => opened.locator(".table-view .name").allTextContents();

test("rows have short names, whole ones on hover, and show what differs", async () => {
  const opened = await page(view, "view=table&by=site");
  assert.deepEqual((await names(opened)).map((name) => name.trim()), [
    "createClient", "server_alloc", "fill src/fill.cpp:21 → std::map<int, int>::operator[]", "fill src/fill.cpp:21 → std::make_shared<Node>",
  ]);
  assert.match(await opened.locator(".table-view .name").first().getAttribute("title"), /^createClient\(int\)/);
  await opened.done();
});

test("a function is treated as an allocator until its chip is removed, and the address keeps it", async () => {
  const opened = await page(view, "view=table&by=site");
  await opened.locator(".table-view .name", { hasText: "server_alloc" }).click();
  await opened.getByRole("button", { name: "Treat as allocator" }).click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("allocator"), "server_alloc(unsigned long)");
  assert.equal((await names(opened))[1].trim(), "parse");
  assert.equal(await opened.locator(".chip-text").first().textContent(), "allocator: server_alloc");
  await opened.reload();
  await settled(opened);
  assert.equal((await names(opened))[1].trim(), "parse");
  await opened.locator(".chip-remove").first().click();
  await settled(opened);
  assert.equal((await names(opened))[1].trim(), "server_alloc");
  await opened.done();
});

test("names can be shown as they are", async () => {
  const opened = await page(view, "view=table&by=site&raw_names=1");
  const innermost = (await names(opened)).map((name) => name.split("←")[0].trim());
  assert.deepEqual(innermost, ["malloc", "malloc", "operator new(unsigned long)", "operator new(unsigned long)"]);
  await opened.done();
});

test("library calls are bars where the line alone would be one", async () => {
  const tree = await api(view, "tree?source=0");
  const bars = tree.node_name.map((name) => tree.names[name]);
  assert.ok(bars.some((name) => name.includes("make_shared")) && bars.some((name) => name.includes("operator[]")), bars.join(", "));
  assert.ok(!bars.includes("zmalloc"));
  assert.equal(tree.short_names["createClient(int)"], "createClient");
});
