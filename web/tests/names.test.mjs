import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { api, choiceOf, folder, go, highwater, page, recording, settled, viewer } from "./support.mjs";

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

test("functions that differ in what their short names leave out are told apart, in every view and in a saved page", async () => {
  const place = folder();
  const line = (at, stack) => JSON.stringify({ event: "allocate", address: at * 65536, size: 1000 * at, time_ns: at * 1000, stack });
  writeFileSync(join(place, "alike.jsonl"), [line(1, ["malloc", "get(int)", "main"]), line(2, ["malloc", "get(char)", "main"]), line(3, ["malloc", "put(int)", "main"])].join("\n"));
  highwater("import", join(place, "alike.jsonl"), "-o", join(place, "alike.hw"));
  const alike = await viewer([join(place, "alike.hw")]);
  const all = async (opened) => (await opened.locator(".table-view .name").allTextContents()).map((name) => name.trim()).filter((name) => !/^(main|malloc)/.test(name)).sort();
  const check = async (opened) => {
    // The stacks of sites come first: each of them alone would have a short name.
    await go(opened, "view=table&by=function&at=end&metric=live");
    assert.deepEqual(await all(opened), ["get(char)", "get(int)", "put"]);
  };
  const opened = await page(alike, "view=leaks");
  await check(opened);
  // Two answers, each with one of them.
  const apart = await page(alike, "view=table&by=function&search=int");
  assert.deepEqual(await all(apart), ["get", "put"]);
  await go(apart, "view=table&by=function&search=get(char");
  assert.deepEqual(await all(apart), ["get(char)"]);
  await go(apart, "view=table&by=function&search=int");
  assert.deepEqual(await all(apart), ["get(int)", "put"]);
  await opened.done();
  await apart.done();
  const { html } = await api(alike, "saved_page?view=view%3Dtable%26by%3Dfunction%26at%3Dend");
  writeFileSync(join(place, "saved.html"), html);
  const saved = await page({ address: pathToFileURL(join(place, "saved.html")).href });
  assert.deepEqual(await all(saved), ["get(char)", "get(int)", "put"]);
  await saved.done();
});
