// What the page says must be true of what is chosen: under filters, in windows, of files that know less, and while nothing is known.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { api, choiceOf, figures, folder, go, highwater, json, page, recording, rows, settled, viewer } from "./support.mjs";

const S = 1_000_000_000;
const place = folder();

/** A recording of these events, whose times are seconds. */
function made(name, events) {
  const lines = [{ event: "source", program: name, pid: 7 }, ...events.map(({ at, ...event }) => ({ ...event, time_ns: at * S }))];
  writeFileSync(join(place, `${name}.jsonl`), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  highwater("import", join(place, `${name}.jsonl`), "-o", join(place, `${name}.hw`));
  return join(place, `${name}.hw`);
}

const big = (at, address, size) => ({ event: "allocate", at, address, size, thread: 1, stack: ["big", "main"] });
const small = (at, address, size) => ({ event: "allocate", at, address, size, thread: 2, stack: ["small", "main"] });
const freed = (at, address, thread) => ({ event: "deallocate", at, address, thread });

/** Most is live at 6s; in the first five seconds and a half at 4s; of what `small` allocates, at 8s. */
const history = made("history", [
  big(1, "0x1000", 1000), small(2, "0x2000", 100),
  { event: "reallocate", at: 3, old_address: "0x2000", address: "0x3000", size: 300, thread: 2, stack: ["small", "main"] },
  small(4, "0x4000", 50), freed(4.5, "0x4000", 2), freed(5, "0x1000", 1),
  big(6, "0x5000", 5000), freed(7, "0x5000", 1), small(8, "0x6000", 200), freed(9, "0x7777", 1),
]);
/** Most is live at 3s. */
const other = made("other", [small(1, "0x1000", 10), big(3, "0x2000", 7000), freed(10, "0x2000", 1)]);
const view = await viewer([history, other]);

const note = (opened, name) => opened.locator(`[data-figure=${name}] small`).textContent();

test("under a filter every figure of the overview is that of the filtered blocks", async () => {
  const opened = await page(view);
  // By stacks, which figures know, and by threads, for which single blocks are counted.
  for (const filter of ["inside:equal:small", "thread:2", "!thread:1"]) {
    await go(opened, `at=end&filter=${encodeURIComponent(filter)}`);
    assert.deepEqual(await figures(opened), { live_bytes: 500, peak_bytes: 500, allocated_bytes: 650, freed_bytes: 150, reallocations: 1, temporary_allocations: 1 }, filter);
    assert.equal(await note(opened, "allocated_bytes"), "3 allocations", filter);
    assert.equal(await note(opened, "freed_bytes"), "1 free", filter);
    assert.equal(await note(opened, "temporary_allocations"), "25.0% of allocations", filter);
    assert.equal(await note(opened, "peak_bytes"), "at 8.00s", filter);
  }
  // How often blocks were resized is not known where each counts once, with its whole life.
  await go(opened, `at=end&filter=lifetime:0..${S}`);
  assert.deepEqual(await figures(opened), { live_bytes: 0, peak_bytes: 5000, allocated_bytes: 5050, freed_bytes: 5050, temporary_allocations: 2 });
  assert.equal(await note(opened, "allocated_bytes"), "2 allocations");
  assert.equal(await note(opened, "freed_bytes"), "2 frees");
  assert.equal(await opened.locator("[data-unknown=reallocations]").textContent(), "reallocationsnot known");
  // What is odd is told of the whole recording, and the page says so.
  assert.match(await opened.locator("[aria-label=Anomalies]").textContent(), /^In the whole recording1 /);
  await opened.done();
});

test("a peak is that of the window, of the filtered blocks, of the file that is meant", async () => {
  const opened = await page(view, `from=0&to=${5.5 * S}&at=peak`);
  assert.match(await opened.locator(".window-line").textContent(), /A peak, 4\.00s/);
  assert.match(await opened.locator(".tops h2").first().textContent(), /^Live at the peak, 4\.00s/);
  assert.equal(await opened.locator(".handle-a").getAttribute("aria-valuenow"), String(4 * S));
  const peak = opened.locator("button.peak");
  assert.equal(await peak.textContent(), "▼peak 5.2 KiB");
  await go(opened, "filter=thread:2");
  assert.equal(await peak.textContent(), "▼peak 500 B");
  assert.match(await peak.getAttribute("title"), /filtered blocks, 500 B at 8\.00s/);
  await peak.click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("at"), String(8 * S));
  assert.equal((await figures(opened)).live_bytes, 500);
  // Zoomed in, it is still the peak of what is drawn in all.
  await go(opened, `filter=thread:2&left=${7 * S}&right=${9 * S}`);
  assert.match(await peak.getAttribute("title"), /500 B at 8\.00s/);
  await go(opened, "view=compare&other=1&b=peak&at=peak");
  assert.match(await opened.locator(".window-line").textContent(), /A peak, 6\.00s.*B peak, 3\.00s/);
  assert.deepEqual(await opened.locator(".compare-view .at").allTextContents(), ["6.00s", "3.00s"]);
  assert.match(await opened.locator(".change-total").textContent(), /^5\.2 KiB → 6\.8 KiB/);
  // In a window, A's peak is the window's here as well.
  await go(opened, `view=compare&other=1&b=peak&at=peak&from=0&to=${5.5 * S}`);
  assert.deepEqual(await opened.locator(".compare-view .at").allTextContents(), ["4.00s", "3.00s"]);
  assert.match(await opened.locator(".change-total").textContent(), /^1\.3 KiB → 6\.8 KiB/);
  await opened.done();
});

test("a saved page has the same peaks", async () => {
  const opened = await page(view, `from=0&to=${5.5 * S}&at=peak&filter=thread:2`);
  const shown = async (page) => [await page.locator("button.peak").getAttribute("title"), await page.locator(".window-line").textContent(), await figures(page)];
  const before = await shown(opened);
  const path = join(place, "saved.html");
  const [download] = await Promise.all([opened.waitForEvent("download"), opened.getByText("Save page").click()]);
  await download.saveAs(path);
  const offline = await page({ address: pathToFileURL(path).href }, "", { offline: true });
  assert.match(before[0], /filtered blocks, 500 B at 8\.00s/);
  assert.match(before[1], /A peak, 4\.00s/);
  assert.deepEqual(await shown(offline), before);
  await offline.getByRole("tab", { name: "Compare" }).click();
  await settled(offline);
  // A at the peak against the end: both are the window's.
  assert.deepEqual(await offline.locator(".compare-view .at").allTextContents(), ["4.00s", "5.50s"]);
  await offline.done();
  await opened.done();
});

test("files of one instant offer what they have, and no other metric", async () => {
  const images = await viewer([recording("ledger-1.img"), history]);
  const opened = await page(images, "view=table&metric=allocated");
  assert.deepEqual(await opened.locator("#metric option").allTextContents(), ["live"]);
  const { live_bytes: live } = json("report", recording("ledger-1.img")).totals;
  assert.equal((await api(images, "rows?source=0")).total.value, live);
  for (const metric of ["peak", "allocated", "leaked", "temporary", "freed"]) {
    const { error } = await api(images, `rows?source=0&metric=${metric}`);
    assert.deepEqual([error.kind, error.metric, error.metrics], ["no_metric", metric, ["live"]]);
    assert.match(error.what, /memory image/);
  }
  await go(opened, "source=1&view=table");
  assert.equal(await opened.locator("#metric option").count(), 8);
  // A recording cannot be compared with a peak that an image does not have.
  await go(opened, "source=1&other=0&view=compare");
  assert.deepEqual(await opened.getByLabel("B's instant").locator("option").allTextContents(), ["at its end"]);
  await opened.done();
});

test("the sites of an object log have names, and a log without times has lines", async () => {
  const logs = await viewer([recording("objects.log")]);
  const opened = await page(logs, "view=table&at=end");
  const { sites, source } = json("report", recording("objects.log"));
  assert.equal(source.timed, false);
  assert.deepEqual((await rows(opened)).map((row) => row.at(-1)), sites.filter((site) => site.live_bytes > 0).map(({ stack: [frame] }) => `${frame.file}:${frame.line}`));
  assert.match(await opened.locator(".facts").textContent(), new RegExp(`${source.duration_lines.toLocaleString("en-US")} lines.*no times in the log`));
  const name = (await rows(opened))[0].at(-1);
  await opened.locator(".table-row").first().click();
  await settled(opened);
  await opened.getByRole("button", { name: "Only inside" }).click();
  await settled(opened);
  assert.deepEqual((await rows(opened)).map((row) => row.at(-1)), [name]);
  const text = async () => (await opened.locator(".app").innerText()).replace(name, "");
  for (const each of ["overview", "flame", "table", "blocks", "leaks", "growth", "compare", "types"]) {
    await go(opened, `view=${each}&at=peak`);
    // No nanoseconds, no seconds, no rates in them.
    assert.doesNotMatch(await text(), /\b\d[\d.,]*(ns|µs|ms|s)\b|\/s\b/, each);
  }
  await go(opened, "view=overview&from=100&to=200&at=end");
  assert.match(await opened.locator(".window-line").textContent(), /window line 100 – line 200 \(100 lines\).*A end, line 200A to peak/);
  await opened.done();
});

test("roots that keep less are not called growth", async () => {
  const images = await viewer([recording("ledger-1.img"), recording("ledger-2.img")]);
  const opened = await page(images, "source=1&other=0&view=image");
  const { roots } = JSON.parse(highwater("image", "diff", recording("ledger-2.img"), recording("ledger-1.img"), "--json"));
  const less = roots.filter((root) => root.change_bytes < 0).length;
  assert.ok(less > 0 && roots.length === less);
  assert.equal(await opened.getByText("Roots that keep more").count(), 0);
  assert.equal(await opened.getByLabel("Roots that keep less").locator("li .shrunk").count(), less);
  await go(opened, "source=0&other=1&view=image");
  assert.equal(await opened.getByLabel("Roots that keep more").locator("li .grown").count(), less);
  assert.equal(await opened.getByText("Roots that keep less").count(), 0);
  await opened.done();
});

test("Compare's flame graph is a choice of its own", async () => {
  const opened = await page(view, "view=compare");
  await opened.locator(".switch").getByRole("button", { name: "Flame graph" }).click();
  await settled(opened);
  assert.equal(await opened.locator(".flame-canvas").count(), 1);
  await opened.getByRole("tab", { name: "Flame graph" }).click();
  await settled(opened);
  assert.equal(await opened.getByRole("button", { name: "flame", exact: true }).getAttribute("aria-pressed"), "false");
  await opened.getByRole("button", { name: "flame", exact: true }).click();
  await opened.getByRole("tab", { name: "Compare" }).click();
  await opened.locator(".switch").getByRole("button", { name: "Table" }).click();
  await opened.getByRole("tab", { name: "Flame graph" }).click();
  await settled(opened);
  assert.equal(await opened.getByRole("button", { name: "flame", exact: true }).getAttribute("aria-pressed"), "true");
  await opened.done();
});

test("a double click shows all of the time, and moves nothing", async () => {
  const opened = await page(view, `at=${2 * S}&b=${3 * S}&from=${S}&to=${6 * S}&left=${S}&right=${8 * S}`);
  const box = await opened.locator(".layer").boundingBox();
  await opened.mouse.dblclick(box.x + box.width * 0.7, box.y + 90);
  await opened.waitForTimeout(300);
  await settled(opened);
  assert.deepEqual([...choiceOf(opened)], [["at", String(2 * S)], ["b", String(3 * S)]]);
  await opened.goBack();
  await settled(opened);
  assert.deepEqual(["from", "to", "left", "right", "at"].map((name) => choiceOf(opened).get(name)), [S, 6 * S, S, 8 * S, 2 * S].map(String));
  // A single click still does.
  await opened.mouse.click(box.x + box.width * 0.5, box.y + 90);
  await opened.waitForTimeout(300);
  await settled(opened);
  assert.notEqual(choiceOf(opened).get("at"), String(2 * S));
  await opened.done();
});

const EMPTY = /No block matches|Nothing|No type|Nothing changed|none\b/;

test("while nothing is known the page does not say that there is nothing", async () => {
  const own = await viewer([history, recording("ledger-1.img")]);
  const opened = await page(own);
  let held = [];
  await opened.route(/\/api\/1\/(?!sources|timeline)/, (route) => void held.push(route));
  const main = () => opened.locator("main").innerText();
  for (const fragment of ["view=blocks", "view=table", "view=leaks", "view=compare", "view=flame&metric=peak", "source=1&view=image"]) {
    const before = held.length;
    await opened.evaluate((to) => { location.hash = to; }, fragment);
    for (let tries = 0; held.length === before && tries < 100; tries += 1) await opened.waitForTimeout(30);
    assert.ok(held.length > before, fragment);
    assert.doesNotMatch(await main(), EMPTY, fragment);
    assert.match(await main(), /loading/, fragment);
  }
  await opened.unroute(/\/api\/1\/(?!sources|timeline)/);
  held = [];
  await own.stop();
  for (const fragment of ["view=blocks&at=1", "view=table&by=type", "view=leaks&to=9", "view=compare&by=file", "view=flame&metric=leaked", "source=1&view=image&pick=0x1"]) {
    await go(opened, fragment);
    await opened.getByText("Not known: the server does not answer.").first().waitFor();
    assert.doesNotMatch(await main(), EMPTY, fragment);
  }
  await opened.close();
});

test("what makes no sense in a link is left out, and told", async () => {
  const opened = await page(view, "filter=size:abc..&filter=size:10..&filter=lifetime:1..x&filter=nonsense:1&from=x&at=1e5&source=0&metric=most&sort=constructor&left=-5");
  const text = await opened.locator(".app").innerText();
  assert.doesNotMatch(text, /NaN|undefined/);
  assert.deepEqual(await opened.locator(".chip-text").allTextContents(), ["size ≥ 10 B"]);
  const told = await opened.locator(".problems").textContent();
  for (const part of ["size:abc..", "lifetime:1..x", "nonsense:1", "from=x", "at=1e5", "metric=most", "left=-5"]) assert.ok(told.includes(part), `${part}: ${told}`);
  assert.equal((await figures(opened)).peak_bytes, json("report", history).totals.peak_bytes);
  await go(opened, `from=${5 * S}&to=${S}`);
  assert.match(await opened.locator(".window-line").textContent(), /window: all/);
  await go(opened, "view=blocks&sort=toString");
  assert.equal((await rows(opened)).length, 2);
  // Whatever is chosen next, the link is behind.
  await opened.getByRole("tab", { name: "Table" }).click();
  await settled(opened);
  assert.equal(await opened.locator(".problems").count(), 0);
  await opened.done();
});

test("address space that is no memory is told apart, as of the instant that is shown", async () => {
  const gauge = (at, name, value) => ({ event: "gauge", at, name, value });
  const reserving = made("reserving", [
    big(1, "0x1000", 1000), gauge(2, "reserved bytes", 8 << 20), gauge(2, "rss", 4 << 20), gauge(3, "mapped file bytes", 81920), gauge(4, "reserved bytes", 3 << 20), gauge(5, "reserved bytes", 0), gauge(8, "mapped file bytes", 4096), freed(9, "0x1000", 1),
  ]);
  const own = await viewer([reserving]);
  const opened = await page(own, `at=${3 * S}`);
  const told = () => opened.locator(".not-counted").allTextContents();
  assert.deepEqual(await told(), ["Not counted at that instant: 8.0 MiB of reserved address space, 80.0 KiB of mapped files."]);
  // It is in no figure, and not among the curves of memory, which it would flatten.
  assert.equal((await figures(opened)).live_bytes, 1000);
  const curves = await opened.locator(".curves").first().textContent();
  assert.match(curves, /rss/);
  assert.doesNotMatch(curves, /reserved|mapped/);
  await go(opened, `at=${S}`);
  assert.deepEqual(await told(), []);
  await go(opened, `at=${8.5 * S}`);
  assert.deepEqual(await told(), [], "a page is not worth a line");
  await go(opened, `at=${6 * S}`);
  assert.deepEqual(await told(), ["Not counted at that instant: 80.0 KiB of mapped files."]);
  await opened.done();
  await own.stop();
});
