import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { bytes, coloursOf, dragTimeline, figures, folder, go, highwater, json, page, recording, rows, settled, viewer } from "./support.mjs";

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

  assert.ok(statSync(path).size < 40 << 20);
  const offline = await reopened(path);
  assert.match(await offline.locator(".saved-note").textContent(), /saved page/);
  assert.deepEqual(await figures(offline), before);
  await go(offline, `${new URL(offline.url()).hash.slice(1)}&view=flame`);
  assert.ok((await coloursOf(offline, ".flame-canvas")) > 3);
  await offline.done();
});

test("a page saved by the command has every metric, rows, leaks, and says what it has not", async () => {
  const path = join(place, "command.html");
  highwater("view", file, "--save", path);
  const offline = await reopened(path);
  const report = json("report", file, "--top", "0");
  assert.equal((await figures(offline)).live_bytes, report.totals.live_bytes);
  for (const metric of ["live", "peak", "allocated", "leaked", "temporary"]) {
    for (const direction of ["down", "up"]) {
      await go(offline, `view=flame&metric=${metric}&direction=${direction}`);
      assert.ok((await coloursOf(offline, ".flame-canvas")) > 3, `${metric} ${direction}`);
    }
    for (const by of ["site", "function"]) {
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
  assert.match((await rows(offline))[0].at(-1), /Session::open/);
  await go(offline, "view=table&metric=live&by=module");
  assert.match(await offline.locator(".told.problem").textContent(), /not in this saved page/);
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
