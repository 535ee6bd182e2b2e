import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { api, bytes, choiceOf, coloursOf, dragTimeline, figures, folder, go, highwater, json, page, recording, rows, settled, viewer } from "./support.mjs";

const file = recording("service.hw");
const place = folder();

/** A saved page, in a browser without any network. */
async function reopened(path, fragment = "") {
  return page({ address: pathToFileURL(path).href }, fragment, { offline: true });
}

test("a page saved from the browser opens without us, with the same figures", async () => {
  const view = await viewer([file]);
  const opened = await page(view, "view=overview");
  await dragTimeline(opened, 0.3, 0.7);
  const before = await figures(opened);
  const [download] = await Promise.all([opened.waitForEvent("download"), opened.getByText("Save page").click()]);
  const path = join(place, "saved.html");
  await download.saveAs(path);
  await opened.done();
  await view.stop();

  assert.ok(statSync(path).size < 3 << 20);
  const offline = await reopened(path);
  assert.match(await offline.locator(".saved-note").textContent(), /saved page/);
  assert.deepEqual(await figures(offline), before);
  await offline.getByRole("tab", { name: "Flame graph" }).click();
  await settled(offline);
  assert.ok((await coloursOf(offline, ".flame-canvas")) > 3);
  assert.equal(await offline.locator(".problems").count(), 0);
  // Another window has other figures, and they are not in it.
  await offline.goBack();
  await settled(offline);
  assert.deepEqual(await figures(offline), before);
  await dragTimeline(offline, 0.4, 0.5);
  assert.match(await offline.locator(".problems").textContent(), /not in this saved page/);
  assert.deepEqual(await figures(offline), {});
  await offline.getByRole("button", { name: "Show what is" }).click();
  await settled(offline);
  assert.equal(await offline.locator(".problems").count(), 0);
  assert.deepEqual(await figures(offline), before);
  await offline.done();
});

test("a page saved by the command has every metric, rows, leaks, and says what it has not", async () => {
  const path = join(place, "command.html");
  highwater("view", file, "--save", path);
  const offline = await reopened(path);
  const report = json("report", file, "--at", "peak", "--top", "0");
  const left = json("report", file).totals.live_bytes;
  assert.equal((await figures(offline)).live_bytes, report.totals.live_bytes);
  assert.equal(Number(await offline.locator("[data-headline=bytes]").getAttribute("data-value")), report.totals.live_bytes);
  for (const metric of ["live", "peak", "allocated", "leaked", "temporary"]) {
    for (const direction of ["down", "up"]) {
      await go(offline, `view=flame&metric=${metric}&direction=${direction}`);
      assert.ok((await coloursOf(offline, ".flame-canvas")) > 3, `${metric} ${direction}`);
    }
    for (const by of ["site", "function", "line", "file", "module", "thread", "heap"]) {
      await go(offline, `view=table&metric=${metric}&by=${by}`);
      assert.ok((await rows(offline)).length > 0, `${metric} ${by}`);
    }
  }
  await go(offline, "view=table&metric=live&by=site");
  assert.equal((await rows(offline))[0][2], bytes(report.sites[0].live_bytes));
  await offline.keyboard.press("/");
  await offline.keyboard.type("Session::open");
  await offline.waitForTimeout(300);
  await settled(offline);
  assert.ok((await rows(offline)).every((row) => /Session::open/.test(row.join(" "))));
  await go(offline, "view=leaks");
  const { before_teardown_ns: judged } = await api(await viewer([file]), "headline?source=0");
  assert.match(await offline.locator(".tools small").first().textContent(), /before the program's tear-down/);
  assert.equal((await rows(offline))[0][1], bytes(json("leaks", file, "--at", `${judged}ns`).sites[0].live_bytes));
  await go(offline, "view=growth");
  const grown = json("growth", file).sites[0];
  assert.ok((await rows(offline)).some((row) => row[1] === bytes(grown.live_bytes)), grown.key);
  await offline.locator(".table-row").first().click();
  await settled(offline);
  assert.match(await offline.locator(".picked .stack").textContent(), /service\.rs/);
  await go(offline, "view=compare");
  assert.equal(Number(await offline.locator(".change-total").getAttribute("data-change")), left - report.totals.live_bytes);
  await offline.getByRole("button", { name: "Flame graph" }).click();
  await settled(offline);
  assert.ok((await coloursOf(offline, ".flame-canvas")) > 3);
  await go(offline, "view=blocks");
  assert.match((await rows(offline))[0][0], /^0x/);
  await go(offline, "view=flame&focus=service::handle");
  assert.match(await offline.locator(".flame-view").textContent(), /not in this saved page/);
  await offline.done();
});

test("a saved page has several instants, and A comes to rest at one of them", async () => {
  const path = join(place, "instants.html");
  highwater("view", file, "--save", path);
  const offline = await reopened(path);
  assert.doesNotMatch(await offline.locator(".facts").textContent(), /being read/);
  const list = offline.locator("#saved-instant");
  const instants = await list.locator("option").evaluateAll((options) => options.map((each) => ({ at: each.value, text: each.textContent })));
  assert.ok(instants.length >= 5 && instants.length <= 9, `${instants.length}`);
  assert.ok(instants.some((each) => /\(peak\)/.test(each.text)) && instants.some((each) => /\(end\)/.test(each.text)));
  for (const { at, text } of instants) {
    await go(offline, "view=overview");
    await list.selectOption(at);
    await settled(offline);
    const report = json("report", file, "--at", /\(peak\)/.test(text) ? "peak" : `${at}ns`, "--by", "function", "--top", "5");
    assert.equal((await figures(offline)).live_bytes, report.totals.live_bytes, text);
    assert.equal(await offline.locator(".problems").count(), 0, text);
    if (report.totals.live_bytes === 0) continue;
    await offline.getByRole("tab", { name: "Table" }).click();
    await offline.locator("#by").selectOption("function");
    await settled(offline);
    assert.equal((await rows(offline))[0][2], bytes(report.functions[0].live_bytes), text);
    await offline.getByRole("tab", { name: "Flame graph" }).click();
    await settled(offline);
    assert.ok((await coloursOf(offline, ".flame-canvas")) > 3, text);
  }
  // A click, a drag and the keys go from one saved instant to another.
  await go(offline, "view=overview");
  const isSaved = () => instants.some((each) => each.at === choiceOf(offline).get("at")) || choiceOf(offline).get("at") === null;
  await offline.locator(".layer").click({ position: { x: 333, y: 90 } });
  await settled(offline);
  assert.ok(isSaved(), choiceOf(offline).get("at"));
  assert.ok((await figures(offline)).live_bytes !== undefined);
  const before = Number(await list.inputValue());
  await offline.locator(".handle-a").focus();
  await offline.keyboard.press("ArrowRight");
  await settled(offline);
  const now = Number(await list.inputValue());
  assert.equal(now, Math.min(...instants.map((each) => Number(each.at)).filter((at) => at > before)), "the next one");
  // What a page has only of the instant at which it was saved says so.
  await offline.getByRole("tab", { name: "Blocks" }).click();
  await settled(offline);
  assert.match(await offline.locator(".status-line.problem").first().textContent(), /only of the instant at which it was saved/);
  // What does not depend on the instant is there.
  await offline.getByRole("tab", { name: "Flame graph" }).click();
  await offline.locator("#metric").selectOption("allocated");
  await settled(offline);
  assert.ok((await coloursOf(offline, ".flame-canvas")) > 3);
  await offline.done();
});

test("saving shows how far it is, and can be cancelled", async () => {
  const view = await viewer([file]);
  const opened = await page(view);
  await opened.evaluate(() => {
    const real = window.fetch;
    window.given = 0;
    window.fetch = (address, options) => {
      if (!String(address).includes("/saved_page?")) return real(address, options);
      options.signal.addEventListener("abort", () => { window.given += 1; });
      const line = `${JSON.stringify({ progress: 0.43, what: "collecting answers" })}\n`;
      // The server is at work, and never done.
      const body = new ReadableStream({ start(to) { to.enqueue(new TextEncoder().encode(line)); options.signal.addEventListener("abort", () => to.error(options.signal.reason)); } });
      return Promise.resolve(new Response(body, { headers: { "content-type": "application/x-ndjson" } }));
    };
  });
  await opened.locator("#save-page").click();
  await opened.getByText("saving 43%").waitFor();
  await opened.locator("#cancel-save").click();
  await opened.locator("#save-page").waitFor();
  assert.equal(await opened.evaluate(() => window.given), 1);
  assert.equal(await opened.locator(".save-problem").count(), 0);
  await opened.done();
});

test("several files are saved together: object logs with their types, images with their treemaps, and two compared", async () => {
  const path = join(place, "several.html");
  highwater("view", recording("rounds.log"), recording("ledger-1.img"), "--save", path);
  const offline = await reopened(path, "view=types");
  const { types } = json("objects", recording("rounds.log"));
  assert.equal((await rows(offline)).length, types.length);
  assert.ok(await offline.locator(".small-bars").count() > 0);
  await offline.locator("select.source").selectOption("1");
  await settled(offline);
  await go(offline, "source=1&view=image");
  assert.ok((await coloursOf(offline, ".treemap canvas")) > 3);
  await go(offline, "view=compare&other=1");
  assert.equal(await offline.locator(".change-total").count(), 1);
  await offline.done();
});

test("hostile names stay text in a saved page", async () => {
  const path = join(place, "hostile.html");
  highwater("view", recording("hostile.hw"), "--save", path);
  const offline = await reopened(path, "view=table&by=function");
  assert.equal(await offline.evaluate(() => window.harmed), undefined);
  assert.match((await rows(offline)).flat().join(" "), /<script>window\.harmed=/);
  await offline.done();
});
