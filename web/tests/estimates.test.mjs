// Estimates look like estimates: no figure of a sampled recording, on any view, lacks its `~`; no figure of an exact one has it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { api, count, go, json, page, recording, viewer } from "./support.mjs";

const view = await viewer([recording("sampled.hw"), recording("trace.ctf"), recording("service.hw"), recording("sampled.hw")]);
const VIEWS = [
  "view=overview", "view=overview&filter=size:1..65536", "view=flame", "view=flame&metric=allocated&search=/./", "view=table", "view=table&by=function&metric=allocated", "view=table&by=type", "view=table&by=thread&metric=freed",
  "view=table&metric=allocations", "view=table&filter=size:1..65536", "view=blocks", "view=leaks", "view=growth", "view=compare&b=end&other=SOURCE", "view=compare&other=3&compared=flame", "view=types", "view=overview&measure=blocks",
];

/** Runs in the page. The texts with figures that are, or are not, marked as estimates. */
function figures() {
  const UNIT = /(~?)[−+]?(?<![\d.,–])\d[\d.,]*[ \u00a0]?(?:B|KiB|MiB|GiB|blocks?|allocations?|frees?)(?![\w–])/g;
  const found = { marked: [], plain: [] };
  const note = (text, where) => {
    for (const [whole, sign] of text.matchAll(UNIT)) found[sign ? "marked" : "plain"].push(`${whole} in '${text.slice(0, 60)}' (${where})`);
  };
  const walker = document.createTreeWalker(document.querySelector(".app"), NodeFilter.SHOW_TEXT);
  const elements = new Set();
  while (walker.nextNode()) {
    // A sign and its figure may be two texts of one element.
    const element = walker.currentNode.parentElement;
    if (elements.has(element)) continue;
    elements.add(element);
    // What was measured and not sampled: RSS, the size of a sampled block, a bound of a filter; ranges, which are no estimates; and the peak of the second file.
    if (element.closest("[data-exact], .other-peak, .facts, .range, .chip, .reading, option, .words, script")) continue;
    const own = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.textContent).join("");
    note(own.replace(/\([^)]*–[^)]*\)/g, ""), element.className || element.tagName);
  }
  for (const cell of document.querySelectorAll(".table-row [role=gridcell].numeric")) {
    const heads = [...cell.closest(".table").querySelectorAll("[role=columnheader]")];
    const head = heads[[...cell.parentElement.children].indexOf(cell)].textContent.replace(/[ ▲▼]+$/, "");
    if (!["Blocks", "Allocations", "Elements"].includes(head)) continue;
    if (/\d/.test(cell.textContent)) found[cell.textContent.includes("~") ? "marked" : "plain"].push(`${cell.textContent} under ${head}`);
  }
  return found;
}

test("every figure that samples made begins with ~, and no exact one does", async () => {
  const opened = await page(view, "source=0", { viewport: { width: 1440, height: 900 } });
  for (const [source, isSampled] of [[0, true], [1, true], [2, false]]) {
    let marked = 0;
    for (const each of VIEWS) {
      if (source === 2 && each.includes("other=3")) continue;
      await go(opened, `source=${source}&${each.replace("SOURCE", source)}`);
      const found = await opened.evaluate(figures);
      assert.deepEqual(isSampled ? found.plain : found.marked, [], `source ${source}, ${each}`);
      marked += isSampled ? found.marked.length : found.plain.length;
      if (!/flame|growth|types|compare/.test(each)) assert.ok((isSampled ? found.marked : found.plain).length > 0, `source ${source}, ${each}: no figure was found`);
    }
    assert.ok(marked > 100, `only ${marked} figures were found`);
  }
  await opened.done();
});

test("an empty view says that the peak is an estimate", async () => {
  const opened = await page(view, "source=0&view=table&at=0");
  assert.match(await opened.locator("main").textContent(), /the peak of ~\S+ \S+ is at/);
  await opened.done();
});

test("the range beside an estimate is the report's", async () => {
  for (const [source, file] of [[0, "sampled.hw"], [1, "trace.ctf"]]) {
    const report = json("report", recording(file), "--at", "peak", "--top", "0");
    const opened = await page(view, `source=${source}&view=table`, { viewport: { width: 1440, height: 900 } });
    const texts = await opened.$$eval(".table-row .range", (cells) => cells.map((cell) => cell.textContent));
    assert.ok(texts.length > 3);
    const [low, high] = report.sites[0].interval_95.live_bytes;
    assert.equal(texts[0], range(low, high), file);
    await go(opened, `source=${source}&view=overview`);
    const whole = report.totals.interval_95.live_bytes;
    assert.equal(await opened.locator("[data-figure=live_bytes] .range").textContent(), range(...whole), file);
    assert.equal((await opened.locator("[data-headline=bytes] .range").textContent()).trim(), range(...whole), file);
    await go(opened, `source=${source}&view=leaks&at=peak`);
    await opened.done();
  }
});

test("a wide range makes a figure faint, and a narrow one does not", async () => {
  const opened = await page(view, "source=0&view=table", { viewport: { width: 1440, height: 900 } });
  const { rows } = await api(view, "rows?source=0&at=peak&limit=200");
  const { sources } = await api(view, "sources");
  assert.ok(sources[0].certainty.bytes_per_sample === 4096 && sources[2].certainty === null);
  const isWide = ({ value, interval_95: { live_bytes: [low, high] } }) => high - value > value / 2 || value - low > value / 2;
  const shown = await opened.$$eval(".table-row", (all) => all.map((row) => row.children[2].querySelector("span").className.includes("faint")));
  assert.deepEqual(shown, rows.slice(0, shown.length).map(isWide));
  assert.ok(shown.includes(true) && shown.includes(false));
  await opened.done();
});

test("temporary allocations are not estimated", async () => {
  const opened = await page(view, "source=0&view=table");
  assert.ok(!(await opened.locator("#metric").textContent()).includes("temporary"));
  assert.equal(await opened.locator("[data-figure=temporary_allocations]").count(), 0);
  await opened.done();
});

test("blocks say how many samples they are, and for how many blocks these stand", async () => {
  const opened = await page(view, "source=0&view=blocks");
  const answer = await api(view, "blocks?source=0&at=peak&limit=1");
  assert.ok((await opened.locator(".tools small").first().textContent()).startsWith(`${count(answer.count)} sampled blocks, which stand for ~${count(answer.estimated_blocks)} blocks`));
  await opened.done();
});

function range(low, high) {
  const units = ["B", "KiB", "MiB", "GiB"];
  const written = (value) => { let [scaled, unit] = [value, 0]; for (; scaled >= 1023.95 && unit < 3; unit += 1) scaled /= 1024; return [unit ? scaled.toFixed(1) : String(scaled), units[unit]]; };
  const [first, last] = [written(low), written(high)];
  if (first.join() === last.join()) return first.join(" ");
  return first[1] === last[1] ? `${first[0]}–${last.join(" ")}` : `${first.join(" ")} – ${last.join(" ")}`;
}
