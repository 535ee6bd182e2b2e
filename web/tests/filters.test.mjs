import assert from "node:assert/strict";
import { test } from "node:test";
import { api, bytes, choiceOf, go, json, page, picture, recording, settled, viewer } from "./support.mjs";

const file = recording("service.hw");
const view = await viewer([file]);
const whole = json("report", file, "--at", "peak", "--top", "0");

/** The sum that the table tells. */
const sum = async (opened) => /rows, (.+) in all/.exec(await opened.locator(".tools small").textContent())[1];

async function add(opened, kind, fill) {
  await opened.locator("#add-filter").click();
  await opened.getByLabel("What", { exact: true }).selectOption(kind);
  await fill(opened);
  await opened.getByRole("button", { name: "Add", exact: true }).click();
  await settled(opened);
}

test("each filter is made in words, shown as a chip, and counted", async () => {
  const opened = await page(view, "view=table&at=peak");
  const thread = whole.threads.find((each) => each.name === "worker 0");
  const cases = [
    ["inside", async () => opened.getByLabel("Function", { exact: true }).fill("Index::add"), "inside:contains:Index::add", "inside …Index::add…"],
    ["inside", async () => { await opened.getByLabel("How", { exact: true }).selectOption("equal"); await opened.getByLabel("Function", { exact: true }).fill("service::handle"); }, "inside:equal:service::handle", "inside service::handle"],
    ["outside", async () => { await opened.getByLabel("How", { exact: true }).selectOption("regex"); await opened.getByLabel("Function", { exact: true }).fill("^service::(fetch|tokenise)"); }, "outside:regex:^service::(fetch|tokenise)", "outside /^service::(fetch|tokenise)/"],
    ["size", async () => { await opened.getByLabel("Least", { exact: true }).fill("100"); await opened.getByLabel("Most", { exact: true }).fill("4 KiB"); }, "size:100..4096", "size 100 B – 4.0 KiB"],
    ["lifetime", async () => opened.getByLabel("Most", { exact: true }).fill("20ms"), "lifetime:..20000000", "lived ≤ 20.0ms"],
    ["allocated", async () => { await opened.getByLabel("Least", { exact: true }).fill("1ms"); await opened.getByLabel("Most", { exact: true }).fill("50ms"); }, "allocated:1000000..50000000", "allocated 1.0ms – 50.0ms"],
    ["freed", async () => opened.getByLabel("Freed", { exact: true }).selectOption("never"), "freed:never", "never freed"],
    ["live", async () => opened.getByLabel("Instant", { exact: true }).fill("30ms"), "live:30000000", "live at 30.0ms"],
    ["thread", async () => opened.getByLabel("Thread", { exact: true }).selectOption(String(thread.id)), `thread:${thread.id}`, "thread worker 0"],
    ["heap", async () => opened.getByLabel("Heap", { exact: true }).selectOption("malloc"), "heap:malloc", "heap malloc"],
  ];
  for (const [kind, fill, filter, words] of cases) {
    await add(opened, kind, fill);
    assert.equal(choiceOf(opened).get("filter"), filter);
    assert.equal(await opened.locator(".chip-text").first().textContent(), words);
    const expected = await api(view, `rows?source=0&metric=live&by=site&at=peak&filter=${encodeURIComponent(filter)}`);
    const value = expected.total.value ?? expected.total.live_bytes;
    assert.equal(await sum(opened), bytes(value), filter);
    assert.ok(value > 0 || kind === "lifetime", filter);
    await opened.getByRole("button", { name: `Remove: ${words}` }).click();
    await settled(opened);
    assert.equal(await sum(opened), bytes(whole.totals.live_bytes));
  }
  await opened.done();
});

test("what filters count is what the report counts", async () => {
  const opened = await page(view, "view=table&at=peak&filter=heap:malloc");
  assert.equal(await sum(opened), bytes(json("report", file, "--at", "peak", "--filter", "heap:malloc").totals.live_bytes));
  const thread = whole.threads.find((each) => each.live_bytes > 0);
  await go(opened, `view=table&at=peak&filter=thread:${thread.id}`);
  assert.equal(await sum(opened), bytes(thread.live_bytes));
  const inside = whole.sites.filter((site) => site.stack.some((frame) => frame.function === "service::Index::add")).reduce((all, site) => all + site.live_bytes, 0);
  await go(opened, "view=table&at=peak&filter=inside:equal:service::Index::add");
  assert.equal(await sum(opened), bytes(inside));
  await go(opened, "view=table&at=peak&filter=outside:equal:service::Index::add");
  assert.equal(await sum(opened), bytes(whole.totals.live_bytes - inside));
  await go(opened, "view=table&at=peak&filter=!inside:equal:service::Index::add");
  assert.equal(await sum(opened), bytes(whole.totals.live_bytes - inside));
  await opened.done();
});

test("filters combine, turn into their opposite, and hold for every view", async () => {
  const opened = await page(view, "view=table&at=peak&filter=inside:contains:Index&filter=size:..100");
  const expected = await api(view, "rows?source=0&metric=live&by=site&at=peak&filter=inside:contains:Index&filter=size:..100");
  assert.equal(await sum(opened), bytes(expected.total.value ?? expected.total.live_bytes));
  for (const name of ["Overview", "Flame graph", "Blocks", "Leaks", "Compare"]) {
    await opened.getByRole("tab", { name }).click();
    await settled(opened);
    assert.equal(await opened.locator(".chip").count(), 2, name);
    assert.equal(await opened.locator(".told.problem").count(), 0, name);
  }
  await opened.getByRole("tab", { name: "Flame graph" }).click();
  await settled(opened);
  await picture(opened, "filters");
  await opened.locator(".chip-text").nth(1).click();
  await settled(opened);
  assert.deepEqual(choiceOf(opened).getAll("filter"), ["inside:contains:Index", "!size:..100"]);
  await opened.getByRole("button", { name: "clear all" }).click();
  await settled(opened);
  assert.equal(await opened.locator(".chip").count(), 0);
  await opened.done();
});

test("a filter that makes no sense is told, and the page goes on", async () => {
  const opened = await page(view, "view=table&filter=inside:regex:(((");
  assert.ok((await opened.locator(".told.problem").first().textContent()).length > 10);
  await opened.locator(".chip-remove").click();
  await settled(opened);
  assert.equal(await opened.locator(".told.problem").count(), 0);
  await opened.done();
});
