import assert from "node:assert/strict";
import { test } from "node:test";
import { api, bytes, choiceOf, coloursOf, count, go, json, page, picture, recording, rows, settled, viewer } from "./support.mjs";

const file = recording("service.hw");
const view = await viewer([file, recording("trace.ctf")]);

test("the flame graph is drawn for each metric, both ways, and zooms", async () => {
  const opened = await page(view, "source=1&view=flame&metric=allocated");
  await picture(opened, "flame");
  for (const metric of ["live", "peak", "allocated", "leaked", "temporary", "freed"]) {
    for (const direction of ["down", "up"]) {
      await go(opened, `view=flame&metric=${metric}&direction=${direction}&at=end`);
      assert.ok((await coloursOf(opened, ".flame-canvas")) > 3, `${metric} ${direction}`);
      const tree = await api(view, `tree?source=0&metric=${metric}&direction=${direction}`);
      assert.ok((await opened.locator("#flame-details").textContent()).startsWith(`${metric === "temporary" ? count(tree.total) : bytes(tree.total)} in all`), metric);
    }
  }
  await go(opened, "view=flame&metric=peak&measure=blocks");
  assert.ok((await opened.locator("#flame-details").textContent()).startsWith(`${count(json("report", file, "--at", "peak").totals.live_blocks)} in all`));
  await go(opened, "view=flame&metric=peak");
  await opened.locator(".flame-canvas").click({ position: { x: 40, y: 18 * 2 + 9 } });
  await settled(opened);
  assert.ok(choiceOf(opened).get("node"), opened.url());
  await opened.getByRole("button", { name: "Zoom out" }).click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("node"), null);
  await opened.done();
});

test("the flame graph is walked, zoomed, focused and searched with the keys", async () => {
  const opened = await page(view, "view=flame&metric=peak");
  await opened.locator(".flame-canvas").focus();
  await opened.keyboard.press("ArrowDown");
  assert.match(await opened.locator("#flame-details").textContent(), /^all/);
  await opened.keyboard.press("ArrowDown");
  const first = await opened.locator("#flame-details .details-name").textContent();
  assert.doesNotMatch(first, /^all/);
  await opened.keyboard.press("ArrowRight");
  const second = await opened.locator("#flame-details .details-name").textContent();
  assert.notEqual(first, second);
  // It stays selected wherever it is in another tree.
  await go(opened, "view=flame&metric=allocated");
  assert.equal(await opened.locator("#flame-details .details-name").textContent(), second);
  await go(opened, "view=flame&metric=peak");
  await opened.locator(".flame-canvas").focus();
  await opened.keyboard.press("Enter");
  await settled(opened);
  assert.equal(choiceOf(opened).get("node"), "1");
  await opened.keyboard.press("Escape");
  await settled(opened);
  assert.equal(choiceOf(opened).get("node"), null);

  await opened.keyboard.press("/");
  await opened.keyboard.type("Session::open");
  await opened.waitForTimeout(300);
  await settled(opened);
  const { sites, totals } = json("report", file, "--at", "peak", "--top", "0");
  const inside = sites.filter((site) => site.stack.some((frame) => frame.function.includes("Session::open"))).reduce((sum, site) => sum + site.live_bytes, 0);
  const found = Number(/found: ([\d.]+)%/.exec(await opened.locator(".found").textContent())[1]);
  assert.ok(Math.abs(found - (inside / totals.live_bytes) * 100) < 0.1, `${found}%`);

  await go(opened, "view=flame&metric=peak&focus=service::handle");
  assert.match(await opened.locator(".filters").textContent(), /focus on service::handle/);
  const tree = await api(view, "tree?source=0&metric=peak&focus=service::handle");
  assert.ok((await opened.locator("#flame-details").textContent()).startsWith(`${bytes(tree.callees.total)} in all`));
  assert.ok((await coloursOf(opened, ".flame-canvas")) > 3);
  await go(opened, "source=1&view=flame&metric=allocated&focus=Stdlib__List.init_aux&merge=1");
  await picture(opened, "focus");
  await opened.done();
});

test("a hidden function gives its part to its caller", async () => {
  const opened = await page(view, "view=flame&metric=peak&hide=service::handle");
  assert.match(await opened.locator(".filters").textContent(), /hidden: service::handle/);
  assert.ok((await opened.locator("#flame-details").textContent()).startsWith(`${bytes(json("report", file).totals.peak_bytes)} in all`));
  await opened.keyboard.press("/");
  await opened.keyboard.type("service::handle");
  await opened.waitForTimeout(300);
  assert.match(await opened.locator(".found").textContent(), /found: 0\.0%/);
  await opened.done();
});

test("recursion is merged, and library frames are shown, without changing what there is in all", async () => {
  const opened = await page(view, "source=1&view=flame&metric=allocated");
  const rowsOfGraph = () => opened.locator(".flame-space").evaluate((space) => space.clientHeight);
  const [all, deep] = [await opened.locator("#flame-details").textContent(), await rowsOfGraph()];
  await opened.getByLabel("merge recursion").check();
  await settled(opened);
  assert.equal(await opened.locator("#flame-details").textContent(), all);
  assert.ok((await rowsOfGraph()) < deep);
  await go(opened, "source=0&view=flame&metric=peak");
  const [own, flat] = [await opened.locator("#flame-details").textContent(), await rowsOfGraph()];
  await opened.getByLabel("library frames").check();
  await settled(opened);
  assert.equal(await opened.locator("#flame-details").textContent(), own);
  assert.ok((await rowsOfGraph()) > flat);
  await opened.done();
});

test("the table has rows by everything, in any order, and tells callers and callees", async () => {
  const opened = await page(view, "view=table&metric=allocated");
  for (const by of ["site", "function", "line", "file", "module", "thread", "heap"]) {
    await opened.selectOption("#by", by);
    await settled(opened);
    const expected = await api(view, `rows?source=0&metric=allocated&by=${by}`);
    const shown = await rows(opened);
    assert.ok(shown.length > 0, by);
    assert.match(await opened.locator(".tools small").textContent(), new RegExp(`^${count(expected.count)} rows`), by);
    assert.equal(shown[0][2], bytes(expected.rows[0].value), by);
  }
  await go(opened, "view=table&metric=live&by=site&at=end");
  const { sites } = json("report", file, "--top", "0");
  assert.deepEqual((await rows(opened)).slice(0, 5).map((row) => row[2]), sites.slice(0, 5).map((site) => bytes(site.live_bytes)));
  await opened.getByRole("button", { name: /^Blocks/ }).click();
  await settled(opened);
  await opened.getByRole("button", { name: /^Blocks/ }).click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("order"), "asc");
  const ascending = (await rows(opened)).map((row) => Number(row[3].replaceAll(",", "")));
  assert.deepEqual(ascending, [...ascending].sort((a, b) => a - b));

  await go(opened, "view=table&metric=allocated&by=function");
  await opened.keyboard.press("/");
  await opened.keyboard.type("service::handle");
  await opened.waitForTimeout(300);
  await settled(opened);
  await opened.locator(".table-row").first().click();
  await settled(opened);
  const around = await api(view, "callers?source=0&metric=allocated&function=service::handle");
  assert.deepEqual(await opened.$$eval(".picked .neighbours button", (elements) => elements.map((each) => each.textContent)), [...around.callers, ...around.callees].map((each) => around.short_names?.[each.function] ?? each.function));
  await go(opened, "view=table&metric=peak&by=function&pick=service::Index::compact");
  await picture(opened, "table");

  // Shown in blocks, shares are of blocks, and those with most come first.
  await go(opened, "view=table&metric=live&by=site&measure=blocks&at=end");
  const { totals } = json("report", file);
  const most = sites.map((site) => site.live_blocks).sort((a, b) => b - a);
  assert.deepEqual((await rows(opened)).slice(0, 3).map((row) => [row[0], row[3]]), most.slice(0, 3).map((blocks) => [`${((blocks / totals.live_blocks) * 100).toFixed(1)}%`, count(blocks)]));
  await opened.done();
});

test("temporary allocations have their part of all allocations, and the bytes of these", async () => {
  const opened = await page(view, "view=table&metric=temporary&by=site");
  const heads = await opened.locator(".table-head [role=columnheader]").allTextContents();
  const [part, allocated] = ["Of its own", "Allocated"].map((title) => heads.indexOf(title));
  assert.ok(part > 0 && allocated > 0, heads.join());
  const { sites } = json("report", file, "--metric", "temporary", "--top", "0");
  const shown = await rows(opened);
  const [first] = sites;
  assert.equal(shown[0][part], `${((first.temporary_allocations / (first.allocations + first.reallocations)) * 100).toFixed(1)}%`);
  assert.equal(shown[0][allocated], bytes(first.allocated_bytes));
  assert.match(await opened.locator(".metrics").textContent(), /Unit of the timeline/);
  await opened.done();
});

test("blocks are listed with all that is known of them, and a drag over a histogram filters", async () => {
  const opened = await page(view, "view=blocks&at=peak&measure=blocks");
  await picture(opened, "blocks");
  const peak = json("report", file, "--at", "peak");
  assert.match(await opened.locator(".tools small").textContent(), new RegExp(`^${count(peak.totals.live_blocks)} blocks, ${bytes(peak.totals.live_bytes)}`));
  const [first] = await rows(opened);
  assert.match(first[0], /^0x[0-9a-f]+$/);
  const expected = await api(view, "blocks?source=0&at=peak&sort=size&limit=1");
  assert.equal(first[1], bytes(expected.blocks[0].size));
  // Far down: a page that was not there yet.
  await opened.locator(".table-body").evaluate((body) => { body.scrollTop = body.scrollHeight / 2; });
  await opened.waitForFunction(() => Number(document.querySelector(".table-row")?.ariaRowIndex) > 3 && !document.querySelector(".table-row .later"));
  const middle = await rows(opened);
  assert.match(middle[3][0], /^0x/);

  const bars = await opened.locator('[aria-label="Size"] .bars').boundingBox();
  await opened.mouse.move(bars.x + bars.width * 0.1, bars.y + 20);
  await opened.mouse.down();
  await opened.mouse.move(bars.x + bars.width * 0.4, bars.y + 20, { steps: 4 });
  await opened.mouse.up();
  await settled(opened);
  const filter = choiceOf(opened).get("filter");
  const [, low, high] = /^size:(\d+)\.\.(\d+)$/.exec(filter);
  const matching = await api(view, `blocks?source=0&at=peak&filter=${filter}`);
  assert.match(await opened.locator(".tools small").textContent(), new RegExp(`^${count(matching.count)} blocks`));
  assert.ok(matching.blocks.every((block) => block.size >= Number(low) && block.size <= Number(high)));
  assert.ok(matching.count > 0 && matching.count < peak.totals.live_blocks);
  await opened.done();
});

test("sites are ranked by steady growth, each with its curve", async () => {
  const opened = await page(view, "view=growth&at=end");
  const [first] = await rows(opened);
  assert.match(first.at(-1), /Session::open/);
  const expected = await api(view, "growth?source=0&points=40");
  assert.equal(first[1], bytes(expected.sites[0].live_bytes));
  assert.ok((await opened.locator(".table-row .curve polyline").first().getAttribute("points")).split(" ").length === 40);
  await opened.locator(".table-row").first().click();
  await settled(opened);
  assert.match(await opened.locator(".picked").textContent(), /service\.rs/);
  await picture(opened, "growth");
  await opened.done();
});

test("what is live at the end is listed as the command lists it", async () => {
  const opened = await page(view, "view=leaks&at=end");
  const shown = await rows(opened);
  const expected = json("leaks", file);
  assert.equal(shown[0][1], bytes(expected.sites[0].live_bytes));
  assert.equal(shown[0][2], count(expected.sites[0].live_blocks));
  const answer = await api(view, "still_live?source=0");
  assert.equal(answer.count, expected.sites.length);
  assert.equal(answer.sites[0].oldest_at_ns, expected.sites[0].oldest_at_ns);
  await opened.locator(".table-row").first().click();
  await settled(opened);
  assert.match(await opened.locator(".picked").textContent(), /the oldest has lived/);
  await go(opened, "view=leaks");
  await opened.locator(".table-row").first().click();
  await settled(opened);
  await picture(opened, "leaks");
  await opened.done();
});

test("two instants are compared with the figures of the diff", async () => {
  const opened = await page(view, "view=compare&at=100000000&b=peak");
  const difference = json("diff", `${file}@100000000ns`, `${file}@peak`);
  assert.equal(Number(await opened.locator(".change-total").getAttribute("data-change")), difference.live_bytes_delta);
  const shown = await rows(opened);
  const largest = difference.sites.map((site) => Math.abs(site.live_bytes_delta)).sort((a, b) => b - a);
  assert.deepEqual(shown.slice(0, 3).map((row) => row[0].replace(/[+−]/, "")), largest.slice(0, 3).map(bytes));
  await picture(opened, "compare");
  await opened.getByRole("button", { name: "Flame graph" }).click();
  await settled(opened);
  assert.ok((await coloursOf(opened, ".flame-canvas")) > 3);
  await picture(opened, "compare-flame");
  await opened.done();
});

test("two files are compared, too", async () => {
  const opened = await page(view, "view=compare&source=1&other=0");
  const [trace, service] = [recording("trace.ctf"), file].map((each) => json("report", each, "--at", "peak").totals.live_bytes);
  const change = async () => Number(await opened.locator(".change-total").getAttribute("data-change"));
  assert.equal(await change(), service - trace);
  // In no order: the older file first, both at their peaks.
  const [first, second] = [0, 1].map((id) => json("info", id === 0 ? file : recording("trace.ctf")).source.start);
  await go(opened, "view=compare");
  assert.equal(await change(), first > second ? service - trace : trace - service);
  await opened.done();
});
