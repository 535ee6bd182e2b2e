import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, test } from "node:test";
import { faults } from "./faults.mjs";
import { api, bytes, coloursOf, EXAMPLES, figures, folder, go, HIGHWATER, highwater, page, picture, settled, until, viewer } from "./support.mjs";

const place = folder();
process.env.HIGHWATER_SOCKET = join(place, "socket");

function start(command, parameters) {
  const child = spawn(command, parameters, { stdio: "ignore" });
  const stop = () => new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", resolve);
    child.kill("SIGKILL");
  });
  after(stop);
  return { pid: child.pid, stop, signal: (name) => child.kill(name) };
}

const collector = start(HIGHWATER, ["collector", "--quiet", "--store", join(place, "kept")]);
const server = start(join(EXAMPLES, "server"), ["600"]);
await until("the server is registered", () => { try { return highwater("ps").includes(String(server.pid)); } catch { return false; } });
const view = await viewer([], { options: ["--live"] });
const processes = (opened) => opened.getByRole("grid", { name: "Processes", exact: true }).locator(".table-row", { hasText: String(server.pid) });
const processOf = async () => (await api(view, "live")).processes.find((each) => each.pid === server.pid);
const post = async (path) => {
  const response = await fetch(`${view.origin}/api/1/${path}`, { method: "POST", headers: { Authorization: `Bearer ${view.token}` } });
  return response.json();
};
// A test that failed may have left it stopped.
afterEach(() => server.signal("SIGCONT"));
const watch = (opened) => opened.locator(".watch");
const latest = async (opened) => Number(await watch(opened).getAttribute("data-latest") || -1);

test("a live process ticks, is taken a snapshot of, and compared with the last one", async () => {
  const opened = await page(view, "view=live");
  const row = processes(opened);
  await row.waitFor();
  const collected = opened.locator(".live-view .tools small.in-all");
  assert.match(await collected.textContent(), /^1 process, .* live in all$/);
  assert.match(await collected.getAttribute("title"), /socket/);
  const live = () => row.locator("[role=gridcell]").nth(3).textContent();
  const before = await live();
  await until("the figures tick", async () => (await live()) !== before);
  // The small curve has a scale.
  assert.match(await row.locator(".spark").textContent(), /^≤ [\d.]+ [KM]iBin \d+s|m/);
  assert.match(await row.locator("[role=gridcell]").nth(6).textContent(), /^\d+s|^\d+m/);

  await row.click({ button: "right" });
  assert.deepEqual(await opened.$$eval("[role=menuitem]", (all) => all.map((each) => each.firstChild.textContent)), ["Watch", "Snapshot now", "Copy name"]);
  await opened.keyboard.press("Escape");
  await row.getByRole("button", { name: "Snapshot now" }).click();
  await opened.locator("[data-figure=live_bytes]").waitFor();
  await settled(opened);
  const first = await figures(opened);
  assert.ok(first.live_bytes > 100_000, String(first.live_bytes));
  assert.match(await opened.locator(".top").first().textContent(), /Cache::page|Session::open/);
  // Where its resident memory is: more than what is live.
  await opened.getByRole("tab", { name: "RSS" }).click();
  await settled(opened);
  assert.ok((await figures(opened)).rss_sum > first.live_bytes);
  await opened.getByRole("tab", { name: "Live" }).click();
  await opened.waitForTimeout(1500);
  assert.equal(await opened.getByRole("grid", { name: "Snapshots", exact: true }).locator(".table-row").count(), 1);
  await row.getByRole("button", { name: "and compare" }).click();
  await opened.locator(".change-total").waitFor();
  await settled(opened);
  assert.ok(Number(await opened.locator(".change-total").getAttribute("data-change")) > 0);
  assert.match(await opened.locator(".table-row").first().textContent(), /Session::open/);
  // The same from the list of what was taken. Each has its time.
  const change = await opened.locator(".change-total").textContent();
  await opened.getByRole("tab", { name: "Live" }).click();
  const taken = opened.getByRole("grid", { name: "Snapshots", exact: true }).locator(".table-row");
  await until("both snapshots", async () => (await taken.count()) === 2);
  assert.deepEqual((await taken.allTextContents()).map((text) => /snapshot \d, \d\d:\d\d:\d\d/.exec(text)?.[0].slice(0, 10)), ["snapshot 2", "snapshot 1"]);
  await opened.getByRole("button", { name: "Compare with the one before" }).click();
  await settled(opened);
  assert.equal(await opened.locator(".change-total").textContent(), change);
  await opened.done();
});

test("a watched process shows its timeline and which sites grow; the figures are those of the command", async () => {
  const opened = await page(view, "view=live&every=1");
  await processes(opened).getByRole("button", { name: "Watch" }).click();
  await watch(opened).waitFor();
  await until("some looks", async () => (await latest(opened)) >= 3);
  await until("a growing site", async () => /Session::open/.test(await opened.locator(".table-row").first().textContent().catch(() => "")));
  const { key } = await processOf();
  assert.equal(new URLSearchParams(new URL(opened.url()).hash.slice(1)).get("process"), key);
  assert.match(await opened.locator(".live-chart svg").getAttribute("aria-label"), /^Live bytes from \d\d:\d\d:\d\d to .* at most [\d.]+ [KM]iB/);
  assert.ok((await opened.locator(".live-chart .last").getAttribute("d")).length > 20);

  // The program stands still: the look is of the same state as the command's snapshot.
  await opened.locator("#every").selectOption("0");
  server.signal("SIGSTOP");
  const number = await latest(opened);
  await opened.getByRole("button", { name: "Look now" }).click();
  await until("one more look", async () => (await latest(opened)) > number);
  const report = JSON.parse(highwater("snapshot", "--pid", String(server.pid), "--json", "--by", "function", "--top", "0"));
  await until("the figures of that look", async () => (await figures(opened)).live_bytes === report.totals.live_bytes);
  const shown = await figures(opened);
  assert.equal(shown.live_blocks, report.totals.live_blocks);
  const { looks } = await api(view, `live/looks?process=${key}`);
  assert.equal(shown.growth, looks.at(-1).live_bytes - looks[0].live_bytes);
  assert.equal(shown.lately, looks.at(-1).live_bytes - looks.at(-2).live_bytes);
  await until("a reading of the timeline", async () => (await api(view, `live/timeline?process=${key}`)).live_bytes.last.at(-1) === report.totals.live_bytes);
  // Every function, as the command has it.
  await opened.locator("#live-by").selectOption("function");
  await opened.getByRole("columnheader", { name: "Function" }).waitFor();
  const answer = await api(view, `live/growth?process=${key}&by=function&limit=10000`);
  const byName = new Map(report.functions.map((each) => [each.name, each]));
  assert.ok(answer.rows.length > 3);
  for (const row of answer.rows.filter((each) => each.live_bytes > 0)) assert.equal(byName.get(row.key)?.live_bytes, row.live_bytes, row.key);
  const cells = await opened.$$eval(".watch .table-row", (rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent.trim())));
  answer.rows.slice(0, cells.length).forEach((row, index) => {
    assert.equal(cells[index][2], bytes(row.live_bytes));
    assert.equal(cells[index][0], row.growth_bytes === 0 ? "0 B" : `${row.growth_bytes > 0 ? "+" : "−"}${bytes(row.growth_bytes)}`);
  });
  // What can be done with a row: the list and the flame graph of the process know it.
  await opened.locator(".watch .table-row").first().click({ button: "right" });
  const offered = await opened.$$eval("[role=menuitem]", (all) => all.map((each) => each.firstChild.textContent));
  for (const name of ["Find in the list", "Find in the flame graph", "Group by site", "Copy name"]) assert.ok(offered.includes(name), offered.join());
  await opened.getByRole("menuitem", { name: "Find in the list" }).click();
  await until("the search of the menu", async () => (await opened.getByRole("searchbox").inputValue()) === answer.rows[0].key);
  await opened.getByRole("searchbox").fill("");
  await until("all rows again", async () => (await opened.locator(".watch .table-row").count()) > 3);
  await settled(opened);
  const [csv] = await Promise.all([opened.waitForEvent("download"), opened.getByRole("button", { name: "CSV" }).click()]);
  assert.equal(readFileSync(await csv.path(), "utf8").trim().split("\r\n").length, answer.rows.length + 1);
  // Searched and sorted by the server, and what is found added up.
  await opened.getByRole("searchbox").fill("/Session::o.en/");
  await until("the search", async () => (await opened.locator(".watch .table-row").count()) === 1);
  assert.match(await opened.locator(".watch .in-all").textContent(), /^1 row, /);
  await opened.locator(".watch .table-row").first().click();
  await opened.getByRole("searchbox").fill("");
  await opened.locator("#live-by").selectOption("site");
  await opened.getByRole("columnheader", { name: "Live", exact: true }).click();
  await until("sorted by live bytes", async () => /sort=live/.test(opened.url()));
  await opened.locator(".watch .table-row").first().click();
  await opened.getByRole("complementary", { name: "The chosen row" }).locator(".stack li").filter({ visible: true }).first().waitFor();
  server.signal("SIGCONT");
  await opened.locator("#every").selectOption("1");
  const then = await latest(opened);
  await until("it goes on", async () => (await latest(opened)) > then);
  // The chosen site stays chosen from look to look.
  assert.equal(await opened.getByRole("complementary", { name: "The chosen row" }).count(), 1);
  if (process.env.PICTURES) {
    await go(opened, `view=live&every=1&process=${key}`);
    await opened.waitForTimeout(20_000);
    await picture(opened, "live");
  }

  // As flame graphs.
  await opened.getByRole("button", { name: "Flame graph" }).click();
  await opened.locator(".flame-canvas").waitFor();
  await until("a picture", async () => (await coloursOf(opened, ".flame-canvas")) > 3);
  await opened.locator("#grown").selectOption("live");
  await until("what is live", async () => /in all/.test(await opened.locator(".flame-details").textContent()));
  const before = await latest(opened);
  await until("it follows", async () => (await latest(opened)) > before);
  for (const looks of ["theme=light", "theme=dark", "theme=light&palette=safe"]) {
    for (const as of ["table", "flame"]) {
      await go(opened, `view=live&process=${key}&every=30&compared=${as}&${looks}`);
      await opened.locator(as === "table" ? ".watch .table-row" : ".flame-canvas").first().waitFor();
      await opened.waitForTimeout(300);
      assert.deepEqual(await opened.evaluate(faults), [], `${as} ${looks}`);
    }
  }

  // Two looks are compared by clicks; their difference is that of their figures.
  await go(opened, `view=live&process=${key}&every=0`);
  await opened.locator(".mark").last().waitFor();
  const kept = (await api(view, `live/looks?process=${key}`)).looks;
  const choose = opened.getByLabel("Choose a look");
  await choose.selectOption("look 0");
  await choose.selectOption(`look ${kept.at(-1).number}`);
  assert.equal(await opened.locator(".mark[aria-pressed=true]").count(), 2);
  await opened.getByRole("button", { name: "Compare both" }).click();
  await opened.locator(".change-total").waitFor();
  await settled(opened);
  assert.equal(Number(await opened.locator(".change-total").getAttribute("data-change")), kept.at(-1).live_bytes - kept[0].live_bytes);
  await opened.done();
});

test("a link to a watched process, a program's own snapshot, and narrow windows", async () => {
  const { key } = await processOf();
  const opened = await page(view, `view=live&process=${key}&every=0&span=600`, { viewport: { width: 640, height: 700 } });
  await opened.locator(".watch .table-row").first().waitFor();
  assert.ok(await opened.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await opened.getByRole("button", { name: "← All processes" }).click();
  // The buttons are in sight.
  const box = await processes(opened).getByRole("button", { name: "Snapshot now" }).boundingBox();
  assert.ok(box.x + box.width <= 640, JSON.stringify(box));
  const own = opened.getByRole("grid", { name: "Snapshots of programs" }).locator(".table-row").first();
  await own.waitFor();
  assert.match(await own.textContent(), /\d\d:\d\d:\d\dwarmed up/);
  await own.getByRole("button", { name: "Open" }).click();
  await opened.locator("[data-figure=live_bytes]").waitFor();
  await settled(opened);
  const [listed] = (await api(view, "live/own")).snapshots;
  assert.equal((await figures(opened)).live_bytes, listed.live_bytes);
  assert.match(await opened.locator(".header .source").first().textContent(), /“warmed up”, \d\d:\d\d:\d\d/);
  // A process that never was, and a link that makes no sense.
  await go(opened, "view=live&process=1-2");
  await opened.getByText("The collector does not know this process any more.").waitFor();
  await go(opened, "view=live&process=nobody&every=7");
  assert.match(await opened.locator(".problems").textContent(), /process=nobody/);
  await opened.done();
});

test("a snapshot and a look that take long can be cancelled", async () => {
  const { key } = await processOf();
  const opened = await page(view, `view=live&process=${key}&every=0`);
  await opened.locator(".watch .table-row").first().waitFor();
  await opened.route(/\/api\/1\/live\/(snapshot|look)\?/, () => {});
  for (const name of ["Snapshot now", "Look now"]) {
    await opened.getByRole("button", { name }).click();
    await opened.locator(".watch").getByRole("button", { name: "Cancel" }).click();
    assert.equal(await opened.getByRole("button", { name }).isEnabled(), true);
  }
  assert.equal(await opened.locator(".watch .problem").count(), 0);
  await opened.getByRole("button", { name: "← All processes" }).click();
  await processes(opened).getByRole("button", { name: "Snapshot now" }).click();
  await opened.locator(".live-view").getByRole("button", { name: "Cancel" }).click();
  assert.equal(await processes(opened).getByRole("button", { name: "Snapshot now" }).isEnabled(), true);
  // A sampled snapshot that a program took of itself is an estimate.
  const { snapshots } = await api(view, "live/own");
  assert.equal(snapshots[0].is_estimate, false);
  await opened.route(/\/api\/1\/live\/own(\?|$)/, (route) => route.fulfill({ json: { snapshots: snapshots.map((each) => ({ ...each, is_estimate: true })) } }));
  await until("it is marked", async () => (await opened.getByRole("grid", { name: "Snapshots of programs" }).textContent()).includes("~"));
  await opened.done();
});

test("many looks leave server and page as large as they were", async () => {
  const { key } = await processOf();
  const opened = await page(view, `view=live&process=${key}&every=1`);
  const session = await opened.context().newCDPSession(opened);
  await session.send("Performance.enable");
  const size = async () => {
    await opened.waitForTimeout(1500);
    await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    const of = (name) => metrics.find((each) => each.name === name).value;
    const { looks, kept_bytes } = await api(view, `live/looks?process=${key}`);
    return { nodes: of("Nodes"), listeners: of("JSEventListeners"), heap: of("JSHeapUsedSize"), looks: looks.length, bytes: kept_bytes, marks: await opened.locator(".mark").count() };
  };
  const look = async (times) => {
    const last = Number((await post(`live/look?process=${key}`)).looks.at(-1).number);
    for (let at = 0; at < times; at += 1) await post(`live/look?process=${key}`);
    await until("the page has seen them", async () => (await latest(opened)) >= last + times);
  };
  await look(150);
  const early = await size();
  await look(600);
  const late = await size();
  for (const each of [early, late]) assert.ok(each.looks <= 64 + 12 + 1, JSON.stringify(each));
  assert.ok(late.looks > 32, JSON.stringify(late));
  assert.ok(late.bytes < 2 * early.bytes, JSON.stringify({ early, late }));
  // The rows on the screen are the same number; a little may differ.
  assert.ok(late.nodes <= early.nodes * 1.25 + 200, JSON.stringify({ early, late }));
  assert.ok(late.heap <= early.heap * 1.5, JSON.stringify({ early, late }));
  await opened.done();
});

test("the end of a process and of the collector is told, and what was seen stays", async () => {
  const { key } = await processOf();
  const opened = await page(view, `view=live&process=${key}&every=1`);
  await opened.locator(".watch .table-row").first().waitFor();
  const another = start(HIGHWATER, ["set", "--pid", String(server.pid), "--sample", "64KiB"]);
  await until("the sampling is changed", async () => /The sampling changed/.test(await opened.locator(".watch").textContent()));
  await another.stop();
  await until("the growth is an estimate", async () => /^~/.test(await opened.locator(".watch [data-figure=growth]").textContent()));
  await until("and so is the end of the timeline", async () => /, ~[\d.]+ \S+ at the end$/.test(await opened.locator(".live-chart svg").getAttribute("aria-label")));
  server.signal("SIGKILL");
  await opened.locator(".ended", { hasText: /ended at \d\d:\d\d:\d\d after/ }).waitFor({ timeout: 15_000 });
  await until("the last state", async () => (await api(view, `live/looks?process=${key}`)).looks.at(-1).has_exited);
  const last = (await api(view, `live/looks?process=${key}`)).looks.at(-1);
  await until("the last look is shown", async () => (await figures(opened)).live_bytes === last.live_bytes);
  assert.equal(await opened.getByRole("button", { name: "Look now" }).count(), 0);
  await opened.getByRole("button", { name: "← All processes" }).click();
  await opened.getByText("No live process. Start one with").waitFor();
  const ended = opened.getByRole("grid", { name: "Ended processes" }).locator(".table-row", { hasText: String(server.pid) });
  assert.match(await ended.textContent(), /server/);
  const listed = (await api(view, "live")).ended.find((each) => each.key === key);
  // Both are estimates since the sampling was changed: the counters are rounded block by block, the look once.
  assert.ok(listed.is_estimate && Math.abs(listed.live_bytes - last.live_bytes) <= 0.0001 * last.live_bytes, `${listed.live_bytes} ${last.live_bytes}`);
  await ended.getByRole("button", { name: "Last state" }).click();
  await opened.locator("[data-figure=live_bytes]").waitFor();
  await settled(opened);
  assert.equal((await figures(opened)).live_bytes, last.live_bytes);
  await go(opened, `view=live&process=${key}`);
  await opened.locator(".live-chart").waitFor();
  await collector.stop();
  await opened.locator(".live-view .problem", { hasText: "no collector listens" }).waitFor({ timeout: 15_000 });
  // What was seen is still there.
  assert.ok(await opened.locator(".live-chart").count());
  assert.ok(await opened.locator(".watch .table-row").count());
  await go(opened, "view=live");
  await opened.locator(".live-view .problem").first().waitFor({ timeout: 15_000 });
  assert.ok((await opened.locator(".live-view .problem").first().textContent()).length > 10);
  await opened.done();
});
