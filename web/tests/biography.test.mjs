// The life of a block: what the page shows is what `highwater block --json` and a naive pass over the events say.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { api, bytes, choiceOf, count, folder, go, highwater, json, page, picture, recording, rows, settled, viewer } from "./support.mjs";

const place = folder();
const program = join(place, "biographies");
execFileSync("c++", ["-std=c++17", "-O2", "-g", "-fno-builtin", "-pthread", "../crates/cli/tests/programs/biographies.cpp", "-o", program], { stdio: "pipe" });
highwater("record", "--force", "--free-stacks", "-o", recording("lives.hw"), "--", program);
highwater("record", "--force", "-o", recording("unfreed.hw"), "--", program);
const view = await viewer([recording("lives.hw"), recording("unfreed.hw"), recording("service.hw"), recording("trace.ctf"), recording("ledger-1.img")]);
/** The events of a recording. */
function eventsOf(name) {
  const path = join(place, `${name}.jsonl`);
  highwater("export", name, "--to", "events", "-o", path);
  return readFileSync(path, "utf8").trim().split("\n").map((line) => JSON.parse(line));
}
const lines = eventsOf("lives.hw");
/** The number of the block that was born with a size that no other has. */
const numberOf = (size) => lines.find((line) => line.event === "allocate" && line.size === size).block;

const WORDS = { allocated: "Allocated", reallocated: "Reallocated", freed: "Freed" };
/** What is shown of each event: what happened, the bytes, and the function that did it. */
const shownEvents = (opened) => opened.$$eval(".life > li[data-event]", (elements) => elements.map((each) => ({ what: each.dataset.event, text: each.querySelector("p").textContent, by: each.querySelector("summary")?.textContent ?? null })));

test("each event of each block's life is shown, with who did it", async () => {
  const opened = await page(view, "view=blocks&listed=ever");
  for (const size of [10011, 10012, 10013, 20011, 30011, 40011, 50011, 60011, 70011]) {
    const id = numberOf(size);
    await go(opened, `view=blocks&listed=ever&pick=${id}`);
    const told = json("block", "lives.hw", "--id", String(id));
    const ownEvents = lines.filter((line) => line.block === id && ["allocate", "reallocate", "deallocate"].includes(line.event));
    const shown = await shownEvents(opened);
    assert.deepEqual(shown.map((event) => event.what), told.events.map((event) => event.what), String(size));
    assert.deepEqual(told.events.map((event) => [event.time_ns, event.thread]), ownEvents.map((line) => [line.time_ns, line.thread]), String(size));
    told.events.forEach((event, index) => {
      assert.match(shown[index].text, new RegExp(`^${WORDS[event.what]} `));
      if (event.what === "reallocated") assert.ok(shown[index].text.includes(`${bytes(event.old_size)} → ${bytes(event.size)}`), shown[index].text);
      if (event.old_address) assert.ok(shown[index].text.includes(`moved from ${event.old_address} to ${event.address}`), shown[index].text);
      const own = event.frame.function.split("(")[0];
      assert.ok(shown[index].by.startsWith(own), `${size} ${event.what}: ${shown[index].by} is not ${own}`);
    });
  }
  await opened.done();
});

test("the life is drawn on the timeline, with a tick for each reallocation, and ends with the choice", async () => {
  const opened = await page(view, `view=blocks&listed=ever&pick=${numberOf(40011)}`);
  const bar = opened.locator(".life-bar");
  assert.match(await bar.getAttribute("aria-label"), /^Life of block [\d,]+: allocated at .*, 2 reallocations, freed at /);
  await opened.getByRole("button", { name: "Zoom to its life" }).click();
  await settled(opened);
  assert.equal(await bar.locator("i").count(), 2);
  const { block, events } = json("block", "lives.hw", "--id", String(numberOf(40011)));
  const [left, right] = ["left", "right"].map((name) => Number(choiceOf(opened).get(name)));
  assert.ok(left <= block.allocated_ns && right >= block.freed_ns, `${left} ${right}`);
  // A tick lies where its time is, within a pixel.
  const box = await opened.locator(".layer").boundingBox();
  const expected = events.filter((event) => event.what === "reallocated").map((event) => box.x + ((event.time_ns - left) / (right - left)) * box.width);
  const ticks = await bar.locator("i").evaluateAll((elements) => elements.map((each) => each.getBoundingClientRect().x + 1));
  ticks.forEach((x, index) => assert.ok(Math.abs(x - expected[index]) < 1.5, `${x} ${expected[index]}`));
  await picture(opened, "biography");
  await opened.locator(".biography").getByRole("button", { name: "Close" }).click();
  await settled(opened);
  assert.equal(await bar.count(), 0);
  await opened.done();
});

test("blocks at one address are a step apart", async () => {
  const [first, second, third] = [10011, 10012, 10013].map(numberOf);
  const told = json("block", "lives.hw", "--id", String(second));
  const opened = await page(view, `view=blocks&listed=ever&pick=${second}`);
  const neighbours = opened.locator(".life .neighbour");
  assert.equal(await neighbours.count(), Number(told.before !== null) + Number(told.after !== null));
  assert.equal(told.before.block.id, first);
  assert.equal(told.after.block.id, third);
  assert.match(await neighbours.first().textContent(), new RegExp(`block ${count(first)}, ${bytes(10011)} .* freed`));
  await neighbours.first().getByRole("button").click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("pick"), String(first));
  assert.match(await opened.locator(".biography h2").textContent(), new RegExp(`block ${count(first)}`));
  await opened.done();
});

test("without stacks of frees the page says how they are recorded; a time puts A there", async () => {
  const id = eventsOf("unfreed.hw").find((line) => line.size === 30011).block;
  const opened = await page(view, `source=1&view=blocks&listed=ever&pick=${id}`);
  assert.match(await opened.locator(".life > li[data-event=freed]").textContent(), /record --free-stacks/);
  const { events } = json("block", "unfreed.hw", "--id", String(id));
  await opened.locator(".life > li[data-event=allocated] > p button").click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("at"), String(events[0].time_ns));
  await opened.done();
});

test("largest ever, live at A and live at the peak are buttons; the list is searched", async () => {
  const opened = await page(view, "source=2&view=blocks&at=end");
  const button = (name) => opened.getByRole("button", { name, exact: true });
  const said = async () => (await opened.locator(".tools small").first().textContent());
  const all = await api(view, "blocks?source=2&filter=allocated:0..&limit=3");
  const end = json("report", "service.hw").totals;
  const peak = json("report", "service.hw", "--at", "peak").totals;
  assert.equal(await button("Live at A").getAttribute("aria-pressed"), "true");
  assert.equal(await said(), `${count(end.live_blocks)} blocks, ${bytes(end.live_bytes)}, live at A`);
  await button("Largest ever").click();
  await settled(opened);
  assert.equal(await said(), `${count(all.count)} blocks, ${bytes(all.bytes)}, ever`);
  assert.equal(all.count, end.allocations);
  assert.deepEqual((await rows(opened)).slice(0, 3).map((row) => row[1]), all.blocks.map((block) => bytes(block.size)));
  await button("Live at the peak").click();
  await settled(opened);
  assert.equal(await said(), `${count(peak.live_blocks)} blocks, ${bytes(peak.live_bytes)}, live at A`);
  assert.equal(await button("Live at the peak").getAttribute("aria-pressed"), "true");
  // Every row has its callers, and times that differ look different.
  const shown = await rows(opened);
  assert.ok(shown.every((row) => row.at(-1).includes(" ← ")), shown[0].at(-1));
  const table = await api(view, "rows?source=2&by=site&metric=live&at=peak&limit=1000");
  const { blocks } = await api(view, "blocks?source=2&at=peak&limit=20");
  blocks.forEach((block) => assert.deepEqual(block.frame, table.rows.find((row) => row.id === block.site).frame));
  const times = new Map(blocks.slice(0, shown.length).map((block, index) => [block.allocated_ns, shown[index][2]]));
  assert.equal(new Set(times.values()).size, times.size);

  await opened.locator("input.search").fill("index::compact");
  await opened.waitForTimeout(300);
  await settled(opened);
  const found = await api(view, "blocks?source=2&at=peak&search=index::compact&limit=1000");
  assert.ok(found.count > 0 && found.count < peak.live_blocks);
  assert.ok(found.blocks.every((block) => block.stack.some((frame) => /index::compact/i.test(frame.function ?? ""))));
  assert.match(await said(), new RegExp(`^${count(found.count)} blocks, ${bytes(found.bytes)}`));
  await opened.locator("input.search").fill("/(/");
  await opened.waitForTimeout(300);
  assert.match(await opened.locator(".search-field .problem").textContent(), /not a regular expression/);
  await opened.done();
});

test("axes of the histograms have ticks, and none beyond the recording", async () => {
  const opened = await page(view, "source=2&view=blocks&listed=ever");
  const ticks = (title) => opened.locator(`.histogram[aria-label=${title}] .bars-axis span`).allTextContents();
  assert.ok((await ticks("Size")).length >= 3);
  const lifetimes = await ticks("Lifetime");
  assert.ok(lifetimes.length >= 3);
  const { lifetime } = await api(view, "histograms?source=2&filter=allocated:0..");
  const lasts = (await api(view, "sources")).sources.find((source) => source.id === 2).duration_ns;
  assert.ok(lifetime.at(-1).from_ns <= lasts);
  const scale = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 };
  const [, number, unit] = /^([\d.]+)(ns|µs|ms|s)$/.exec(lifetimes.at(-1));
  assert.ok(Number(number) * scale[unit] <= lasts * 1.01, `${lifetimes.at(-1)} of ${lasts}`);
  await opened.done();
});

test("a snapshot has no lifetimes, and says what it does not know", async () => {
  highwater("export", "service.hw", "--at", "peak", "-o", recording("taken.hw"), "--force");
  const own = await viewer([recording("taken.hw")]);
  const opened = await page(own, "view=blocks");
  assert.equal(await opened.locator(".histogram").count(), 1);
  assert.equal(await opened.locator(".never").count(), 0);
  assert.doesNotMatch(await opened.locator(".blocks-view").textContent(), /never freed|Lived/i);
  await opened.locator(".table-row").first().click();
  await settled(opened);
  assert.match(await opened.locator(".biography").textContent(), /A snapshot knows one instant/);
  assert.doesNotMatch(await opened.locator(".biography").textContent(), /never freed/i);
  await opened.done();
  await own.stop();
});

test("a saved page has the blocks of its list, and says that it has no more of their lives", async () => {
  const path = join(place, "saved.html");
  highwater("view", "lives.hw", "--save", path);
  const opened = await page({ address: pathToFileURL(path).href }, "view=blocks&at=peak", { offline: true });
  await opened.locator(".table-row").first().click();
  await settled(opened);
  assert.match(await opened.locator(".biography").textContent(), /A saved page has no more of a block's life/);
  assert.equal(await opened.getByRole("button", { name: "Largest ever" }).count(), 0);
  await opened.done();
});
