import assert from "node:assert/strict";
import { test } from "node:test";
import { api, bytes, choiceOf, figures, go, json, page, picture, recording, rows, settled, viewer } from "./support.mjs";

const file = recording("service.hw");
const view = await viewer([file]);
const whole = json("report", file, "--at", "peak", "--top", "0");

/** The sum that the table tells. */
const sum = async (opened) => /rows?, (.+) in all/.exec(await opened.locator(".tools small").textContent())[1];

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
    ["size", async () => { await opened.getByLabel("Least", { exact: true }).fill("100"); await opened.getByLabel("Most", { exact: true }).fill("100KB"); }, "size:100..100000", "size 100 B – 97.7 KiB"],
    ["lifetime", async () => opened.getByLabel("Most", { exact: true }).fill("20ms"), "lifetime:..20000000", "lived ≤ 20.0ms"],
    ["allocated", async () => { await opened.getByLabel("Least", { exact: true }).fill("1ms"); await opened.getByLabel("Most", { exact: true }).fill("50ms"); }, "allocated:1000000..50000000", "allocated 1.0ms – 50.0ms"],
    ["allocated", async () => opened.getByLabel("Most", { exact: true }).fill("1h30m"), "allocated:..5400000000000", "allocated ≤ 1h 30m"],
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
  for (const name of ["Overview", "Flame graph", "Blocks", "Leaks", "Growth", "Compare"]) {
    await opened.getByRole("tab", { name }).click();
    await settled(opened);
    assert.equal(await opened.locator(".chip").count(), 2, name);
    assert.equal(await opened.locator(".status-line.problem").count(), 0, name);
  }
  await opened.getByRole("tab", { name: "Flame graph" }).click();
  await settled(opened);
  await opened.locator("#add-filter").click();
  await opened.getByLabel("What", { exact: true }).selectOption("lifetime");
  await picture(opened, "filters");
  await opened.getByRole("button", { name: "Cancel" }).click();
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
  assert.ok((await opened.locator(".status-line.problem").first().textContent()).length > 10);
  await opened.locator(".chip-remove").click();
  await settled(opened);
  assert.equal(await opened.locator(".status-line.problem").count(), 0);
  await opened.done();
});

/** A filter as a person makes it, and what it means for a block, told here once more. */
function reckoned(blocks) {
  const functions = (block) => block.stack.map((frame) => frame.function ?? "");
  const half = blocks.map((block) => block.allocated_ns).sort((a, b) => a - b)[blocks.length >> 1];
  const freed = blocks.filter((block) => block.freed_ns !== null).map((block) => block.freed_ns).sort((a, b) => a - b);
  const lifetime = blocks.filter((block) => block.lifetime_ns !== null).map((block) => block.lifetime_ns).sort((a, b) => a - b)[freed.length >> 1];
  const within = { equal: (name) => name === "service::Index::add", contains: (name) => name.includes("ndex::"), regex: (name) => /^service::(Session|fetch).*$/.test(name) };
  const typed = { equal: "service::Index::add", contains: "ndex::", regex: "^service::(Session|fetch).*$" };
  const inModule = (module) => (block) => block.stack.some((frame) => frame.module === module);
  const library = [...new Set(blocks.flatMap((block) => block.stack.map((frame) => frame.module)))].find((module) => module && !blocks.every(inModule(module)));
  const thread = blocks.at(-1).thread;
  assert.ok(library && freed.length > 10, "the recording has what the filters look for");
  const fill = (opened, label, text) => opened.getByLabel(label, { exact: true }).fill(text);
  const choose = (opened, label, value) => opened.getByLabel(label, { exact: true }).selectOption(value);
  return [
    ...["inside", "outside"].flatMap((kind) => Object.keys(within).map((mode) => [kind, async (opened) => { await choose(opened, "How", mode); await fill(opened, "Function", typed[mode]); },
      (block) => functions(block).some(within[mode]) === (kind === "inside")])),
    ["size", async (opened) => { await fill(opened, "Least", "16"); await fill(opened, "Most", "0.125 KiB"); }, (block) => block.size >= 16 && block.size <= 128],
    ["lifetime", (opened) => fill(opened, "Least", `${lifetime}ns`), (block) => block.lifetime_ns !== null && block.lifetime_ns >= lifetime],
    ["allocated", (opened) => fill(opened, "Most", `${half}`), (block) => block.allocated_ns <= half],
    ["freed", async (opened) => { await fill(opened, "Least", `${freed[2]}`); await fill(opened, "Most", `${freed.at(-3)}`); }, (block) => block.freed_ns !== null && block.freed_ns >= freed[2] && block.freed_ns <= freed.at(-3)],
    ["freed", (opened) => choose(opened, "Freed", "never"), (block) => block.freed_ns === null],
    ["freed", (opened) => choose(opened, "Freed", "ever"), (block) => block.freed_ns !== null],
    ["live", (opened) => fill(opened, "Instant", `${half}`), (block) => block.allocated_ns <= half && (block.freed_ns === null || block.freed_ns > half)],
    ["thread", (opened) => choose(opened, "Thread", String(thread)), (block) => block.thread === thread],
    ["heap", (opened) => choose(opened, "Heap", "malloc"), (block) => block.heap === "malloc"],
    ["module", (opened) => fill(opened, "Name", library), inModule(library)],
  ];
}

/** An early instant at which some thousand blocks are live: few enough to look at each. */
async function earlyInstant() {
  const { t, live_blocks } = await api(view, "timeline?source=0&points=8000");
  return Math.round(t[live_blocks.last.findIndex((live) => live > 2000) + 1]);
}

async function allBlocks(at) {
  const blocks = [];
  for (;;) {
    const page = await api(view, `blocks?source=0&at=${at}&limit=1000&offset=${blocks.length}`);
    blocks.push(...page.blocks);
    if (page.blocks.length === 0 || blocks.length >= page.count) return blocks;
  }
}

const totalOf = (blocks) => [blocks.length, blocks.reduce((sum, block) => sum + block.size, 0)];

test("each filter, alone and with another, keeps the blocks that a reckoning over all blocks keeps", async () => {
  const at = await earlyInstant();
  const blocks = await allBlocks(at);
  const { totals } = json("report", file, "--at", `${at}ns`);
  assert.deepEqual(totalOf(blocks), [totals.live_blocks, totals.live_bytes]);
  const opened = await page(view, `view=overview&at=${at}`);
  const said = async () => [Number((await opened.locator("[data-figure=live_bytes] small").textContent()).replace(/ blocks?|,/g, "")), (await figures(opened)).live_bytes];
  const cases = reckoned(blocks);
  const made = [];
  let telling = 0;
  for (const [kind, fill, keeps] of cases) {
    await add(opened, kind, fill);
    const kept = blocks.filter(keeps);
    if (kept.length > 0 && kept.length < blocks.length) telling += 1;
    made.push(choiceOf(opened).get("filter"));
    assert.deepEqual(await said(), totalOf(kept), made.at(-1));
    await opened.locator(".chip-remove").click();
    await settled(opened);
    assert.deepEqual(await said(), totalOf(blocks));
  }
  assert.ok(telling >= cases.length - 2, `only ${telling} of ${cases.length} filters keep some and leave some`);
  // Each with its neighbour, or with its neighbour's opposite.
  for (const [index, [, , keeps]] of cases.entries()) {
    const next = (index + 1) % cases.length;
    const opposite = index % 2 === 1;
    const query = [made[index], `${opposite ? "!" : ""}${made[next]}`].map((filter) => `filter=${encodeURIComponent(filter)}`).join("&");
    await go(opened, `view=overview&at=${at}&${query}`);
    const kept = blocks.filter((block) => keeps(block) && cases[next][2](block) !== opposite);
    assert.deepEqual(await said(), totalOf(kept), query);
    assert.equal(await opened.locator(".chip").count(), 2);
  }
  await opened.done();
});

test("a type is chosen among those that there are, and its figures are those of the objects", async () => {
  const file = recording("rounds.log");
  const opened = await page(await viewer([file]), "view=table&metric=live&at=end");
  const { types, totals } = json("objects", file);
  const leaking = types.filter((each) => each.live_bytes > 0);
  assert.ok(leaking.length > 2);
  for (const { type, live_bytes } of leaking) {
    await add(opened, "type", async () => {
      await opened.waitForFunction((wanted) => [...document.querySelectorAll("#filter-names option")].some((option) => option.value === wanted), type);
      await opened.getByLabel("Name", { exact: true }).fill(type);
    });
    assert.equal(await opened.locator(".chip-text").textContent(), `type ${type}`);
    assert.equal(await sum(opened), bytes(live_bytes));
    await opened.locator(".chip-text").click();
    await settled(opened);
    assert.equal(await opened.locator(".chip-text").textContent(), `not type ${type}`);
    assert.equal(await sum(opened), bytes(totals.live_bytes - live_bytes));
    await opened.locator(".chip-remove").click();
    await settled(opened);
  }
  await opened.done();
});

test("filters with units and bare regular expressions are those of the command line", async () => {
  const opened = await page(view, "view=table&filter=size:1KiB..&filter=Session|fetch");
  assert.match(await opened.locator(".chip").first().textContent(), /size ≥ 1KiB/);
  assert.match(await opened.locator(".chip").nth(1).textContent(), /matches \/Session\|fetch\//);
  const expected = await api(view, "rows?source=0&filter=size:1024..&filter=Session|fetch");
  assert.equal((await rows(opened)).length, expected.rows.length);
  await opened.done();
});

test("what cannot be a filter is told where it is typed, and Escape closes it", async () => {
  const opened = await page(view, "view=table");
  await opened.keyboard.press("+");
  const form = opened.getByRole("form", { name: "New filter" });
  await opened.getByRole("button", { name: "Add", exact: true }).click();
  assert.match(await form.getByRole("alert").textContent(), /a name is needed/);
  await opened.getByLabel("What", { exact: true }).selectOption("size");
  await opened.getByRole("button", { name: "Add", exact: true }).click();
  assert.match(await form.getByRole("alert").textContent(), /one end at least is needed/);
  await opened.getByLabel("Least", { exact: true }).fill("many");
  await opened.getByRole("button", { name: "Add", exact: true }).click();
  assert.match(await form.getByRole("alert").textContent(), /'many' cannot be read/);
  // An expression of the browser that the server does not know, and one that is none anywhere.
  await opened.getByLabel("What", { exact: true }).selectOption("inside");
  await opened.getByLabel("How", { exact: true }).selectOption("regex");
  for (const [wrong, why] of [["(", /not a regular expression/], ["(?=ahead)x", /not a regular expression: look-around/]]) {
    await opened.getByLabel("Function", { exact: true }).fill(wrong);
    await opened.getByRole("button", { name: "Add", exact: true }).click();
    await form.getByRole("alert").filter({ hasText: why }).waitFor();
    assert.equal(choiceOf(opened).getAll("filter").length, 0);
  }
  await opened.keyboard.press("Escape");
  assert.equal(await form.count(), 0);
  assert.equal(await opened.evaluate(() => document.activeElement.id), "add-filter");
  assert.equal(await opened.locator(".chip").count(), 0);
  await opened.done();
});
