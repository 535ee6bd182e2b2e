import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, choiceOf, count, dragTimeline, figures, go, json, page, picture, recording, rows, settled, viewer } from "./support.mjs";

const file = recording("service.hw");
const view = await viewer([file]);
const report = (at) => json("report", file, "--at", at === "peak" ? "peak" : `${at}ns`, "--top", "0");

test("the overview's figures are those of the report", async () => {
  // A is the peak at first.
  const first = await page(view);
  const peak = json("report", file, "--at", "peak", "--top", "0");
  assert.equal((await figures(first)).live_bytes, peak.totals.live_bytes);
  assert.equal(Number(await first.getByRole("slider", { name: "Instant A" }).getAttribute("aria-valuenow")), peak.at_ns);
  const said = (part) => first.locator(`[data-headline=${part}]`);
  assert.equal(Number(await said("bytes").getAttribute("data-value")), peak.totals.live_bytes);
  const [largest] = json("report", file, "--at", "peak", "--by", "function", "--top", "0").functions.toSorted((a, b) => b.live_bytes - a.live_bytes);
  assert.equal(Number(await said("top").getAttribute("data-value")), largest.live_bytes);
  const steady = json("growth", file).sites.filter((site) => site.steadiness >= 0.9);
  assert.ok(steady.length > 0 && Number(await said("steady").getAttribute("data-value")) > 0);
  await said("top").click();
  await settled(first);
  assert.equal(choiceOf(first).get("view"), "table");
  assert.equal((await rows(first))[0][2], bytes(largest.live_bytes));
  await first.done();

  const opened = await page(view, "at=end");
  const { totals } = json("report", file);
  const shown = await figures(opened);
  for (const name of ["live_bytes", "peak_bytes", "allocated_bytes", "freed_bytes", "reallocations", "temporary_allocations"]) assert.equal(shown[name], totals[name], name);
  assert.match(await opened.locator(".facts").textContent(), /service \(pid \d+/);
  assert.match(await opened.title(), /service/);
  await picture(opened, "overview");
  await opened.done();
});

test("a window is dragged, and everything follows it with the report's figures", async () => {
  const opened = await page(view, "at=end");
  await dragTimeline(opened, 0.25, 0.6);
  const chosen = choiceOf(opened);
  const [from, to] = [Number(chosen.get("from")), Number(chosen.get("to"))];
  const { duration_ns } = json("info", file).source ?? json("report", file).source;
  assert.ok(Math.abs(from / duration_ns - 0.25) < 0.01 && Math.abs(to / duration_ns - 0.6) < 0.01, `${from} to ${to} of ${duration_ns}`);
  const after = report(to);
  const within = json("report", file, "--from", `${from}ns`, "--to", `${to}ns`).totals;
  const shown = await figures(opened);
  for (const name of ["allocated_bytes", "freed_bytes", "reallocations", "temporary_allocations", "live_bytes"]) assert.equal(shown[name], within[name], name);
  assert.equal(shown.live_bytes, after.totals.live_bytes);
  const before = report(from - 1);
  assert.equal(shown.allocated_bytes, after.totals.allocated_bytes - before.totals.allocated_bytes);

  await opened.getByRole("tab", { name: "Table" }).click();
  await settled(opened);
  const live = await rows(opened);
  assert.equal(live[0][2], bytes(after.sites[0].live_bytes));
  assert.equal(live[0][3], count(after.sites[0].live_blocks));
  assert.match(await opened.locator(".tools small").textContent(), new RegExp(`^${count(after.sites.filter((site) => site.live_bytes > 0).length)} rows, ${bytes(after.totals.live_bytes)}`));

  await opened.getByRole("tab", { name: "Flame graph" }).click();
  await settled(opened);
  assert.ok((await opened.locator("#flame-details").textContent()).startsWith(`${bytes(after.totals.live_bytes)} in all`));
  await opened.done();
});

test("a copied link shows the same in a browser that has never been here", async () => {
  const opened = await page(view, "view=table&metric=peak&filter=size%3A64..", { permissions: ["clipboard-read", "clipboard-write"] });
  await opened.keyboard.press("l");
  await opened.getByRole("status").getByText("Copied").waitFor();
  const link = await opened.evaluate(() => navigator.clipboard.readText());
  assert.ok(link.startsWith(view.address), link);
  const stranger = await page({ ...view, address: link });
  assert.equal(stranger.url(), opened.url());
  assert.deepEqual(await rows(stranger), await rows(opened));
  assert.ok((await rows(stranger)).length > 3);
  for (const each of [stranger, opened]) await each.done();
});

test("every choice is in the address: back undoes it, and the address alone brings it back", async () => {
  const opened = await page(view);
  await opened.getByRole("tab", { name: "Flame graph" }).click();
  await settled(opened);
  await opened.selectOption("#metric", "allocated");
  await settled(opened);
  await dragTimeline(opened, 0.4, 0.5);
  const address = opened.url();
  assert.match(address, /view=flame.*metric=allocated/);
  const details = await opened.locator("#flame-details").textContent();
  const other = await page({ ...view, address: view.address }, new URL(address).hash.slice(1));
  assert.equal(await other.locator("#flame-details").textContent(), details);
  await other.done();
  await opened.goBack();
  await settled(opened);
  assert.equal(choiceOf(opened).get("from"), null);
  await opened.goBack();
  await settled(opened);
  assert.equal(choiceOf(opened).get("metric"), null);
  await opened.goBack();
  await settled(opened);
  assert.equal(await opened.getByRole("tab", { name: "Overview" }).getAttribute("aria-selected"), "true");
  await opened.done();
});

test("the timeline zooms to single nanoseconds, and its handles move with the keys", async () => {
  const opened = await page(view);
  const box = await opened.locator(".layer").boundingBox();
  await opened.mouse.move(box.x + box.width / 3, box.y + 80);
  for (let step = 0; step < 60; step += 1) await opened.mouse.wheel(0, -240);
  await opened.waitForTimeout(300);
  await settled(opened);
  const { left, right } = Object.fromEntries(choiceOf(opened));
  assert.ok(right - left <= 40, `${left} to ${right}`);
  await opened.mouse.dblclick(box.x + box.width / 2, box.y + 80);
  // The address is written when the choice rests.
  await opened.waitForURL((url) => !url.hash.includes("left="), { timeout: 10_000 });
  await settled(opened);
  assert.equal(choiceOf(opened).get("left"), null);

  const handle = opened.getByRole("slider", { name: "Instant A" });
  await opened.keyboard.press("p");
  await settled(opened);
  const peak = report("peak");
  assert.equal(Number(await handle.getAttribute("aria-valuenow")), peak.at_ns);
  assert.equal((await figures(opened)).live_bytes, peak.totals.live_bytes);
  await handle.focus();
  await opened.keyboard.press("ArrowLeft");
  await opened.waitForTimeout(150);
  await settled(opened);
  const moved = Number(await handle.getAttribute("aria-valuenow"));
  assert.ok(moved < peak.at_ns && moved > peak.at_ns - json("report", file).source.duration_ns / 200);
  assert.equal((await figures(opened)).live_bytes, report(moved).totals.live_bytes);
  await opened.done();
});

test("marks and the peak stand on the timeline", async () => {
  const opened = await page(view, "at=end");
  const marks = await opened.$$eval(".mark", (elements) => elements.map((each) => each.textContent));
  assert.deepEqual(marks, ["loaded", "compacted"]);
  const legend = () => opened.$$eval(".curves span", (elements) => elements.map((each) => each.textContent.trim()));
  assert.deepEqual(await legend(), ["live bytes", "rss", "free, resident", "slack", "allocated per second"]);
  await opened.selectOption("#measure", "blocks");
  await settled(opened);
  assert.deepEqual(await legend(), ["live blocks", "allocations per second"]);
  await opened.locator("button.peak").click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("at"), null, "A is at the peak, as at first");
  await opened.done();
});

test("a trace of an OCaml program is shown as estimates, with its heaps", async () => {
  const traces = await viewer([recording("trace.ctf")]);
  const opened = await page(traces, "at=end");
  assert.match(await opened.locator(".facts").textContent(), /estimates/);
  assert.equal((await figures(opened)).live_bytes, json("report", recording("trace.ctf")).totals.live_bytes);
  await go(opened, "view=table&by=heap");
  const heaps = (await rows(opened)).map((row) => row.at(-1));
  assert.ok(heaps.includes("major"), String(heaps));
  await opened.done();
});
