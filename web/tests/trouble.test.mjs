import assert from "node:assert/strict";
import { copyFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { api, coloursOf, count, figures, folder, go, highwater, json, page, recording, rows, settled, viewer } from "./support.mjs";

test("names that would do harm are only ever text", async () => {
  const view = await viewer([recording("hostile.hw")]);
  const opened = await page(view);
  const unharmed = async (where) => {
    assert.equal(await opened.evaluate(() => window.harmed), undefined, where);
    assert.equal(await opened.locator("#page img, #page script, #page iframe, #page b[onmouseover]").count(), 0, where);
  };
  await unharmed("overview");
  assert.match(await opened.locator(".header").textContent(), /<img src=x onerror=window\.harmed=1>/);
  assert.match(await opened.locator(".mark").first().textContent(), /<svg onload/);
  for (const name of ["flame", "table", "blocks", "leaks", "growth", "compare"]) {
    await go(opened, `view=${name}`);
    await unharmed(name);
  }
  for (const by of ["site", "function", "type", "thread"]) {
    await go(opened, `view=table&by=${by}`);
    const text = (await rows(opened)).flat().join(" ");
    assert.match(text, by === "thread" ? /<b onmouseover/ : /<script>window\.harmed=/, by);
    assert.doesNotMatch(text, /[\u0000\u001b\u202e]/, by);
    await opened.locator(".table-row").first().click();
    await settled(opened);
    await unharmed(by);
  }
  await go(opened, "view=flame");
  await opened.locator(".flame-canvas").focus();
  for (let step = 0; step < 4; step += 1) await opened.keyboard.press("ArrowDown");
  assert.match(await opened.locator("#flame-details").textContent(), /<script>|<img|<\/script>/);
  const box = await opened.locator(".flame-canvas").boundingBox();
  for (let row = 0; row < 5; row += 1) await opened.mouse.move(box.x + 100, box.y + row * 18 + 9);
  await unharmed("tips");
  await go(opened, `view=table&filter=${encodeURIComponent("inside:contains:<img src=x onerror=window.harmed=8>")}`);
  await unharmed("chips");
  await opened.done();
});

test("a damaged recording is shown as far as it goes, and the damage is told", async () => {
  const view = await viewer([recording("damaged.hw")]);
  const opened = await page(view, "at=end");
  const { damage } = (await api(view, "sources")).sources[0];
  const told = await opened.locator(".problems").textContent();
  assert.match(told, /damaged/);
  assert.ok(told.includes(count(damage[0].offset)) && told.includes(count(damage[0].offset + damage[0].length - 1)), told);
  assert.equal((await figures(opened)).live_bytes, json("report", recording("damaged.hw")).totals.live_bytes);
  await opened.done();
});

test("an empty recording, and one that is none", async () => {
  const view = await viewer([recording("empty.hw"), recording("service.hw")]);
  const opened = await page(view);
  assert.equal((await figures(opened)).live_bytes, 0);
  for (const name of ["flame", "table", "blocks", "leaks", "growth", "compare"]) {
    await go(opened, `view=${name}`);
    assert.ok((await opened.locator("main").textContent()).length > 0, name);
  }
  // The other file is there all the same.
  await go(opened, "source=1");
  assert.ok((await figures(opened)).peak_bytes > 0);
  await opened.done();
});

test("where nothing is live, each view says so and leads to the peak", async () => {
  const view = await viewer([recording("service.hw")]);
  const opened = await page(view);
  for (const name of ["overview", "flame", "table", "blocks", "leaks"]) {
    await go(opened, `view=${name}&at=0`);
    assert.match(await opened.locator("main").textContent(), /Nothing is live at A \(0 B\): the peak of \S+ \S+ is at/, name);
  }
  await opened.locator("main").getByRole("button", { name: "Go there" }).click();
  await settled(opened);
  assert.ok((await rows(opened)).length > 0);
  await go(opened, "view=table&filter=size:1000000000000..");
  assert.match(await opened.locator("main").textContent(), /Nothing passes the filters at A/);
  await opened.getByRole("button", { name: "Remove them" }).click();
  await settled(opened);
  assert.ok((await rows(opened)).length > 0);
  await opened.done();
});

test("a long question can be cancelled and asked again, and the timeline waits without a curve", async () => {
  const view = await viewer([recording("service.hw")]);
  const opened = await page(view);
  await opened.evaluate(() => {
    const real = window.fetch;
    window.isHeld = true;
    window.fetch = (address, options) => {
      if (!window.isHeld || !/\/(tree|timeline)\?/.test(String(address))) return real(address, options);
      return new Promise((_, reject) => options.signal.addEventListener("abort", () => reject(options.signal.reason)));
    };
  });
  await opened.keyboard.press("2");
  await opened.locator(".flame-view").getByRole("button", { name: "Cancel" }).click();
  await opened.locator(".flame-view").getByText("cancelled").waitFor();
  await opened.evaluate(() => { window.isHeld = false; });
  await opened.locator(".flame-view").getByRole("button", { name: "Ask again" }).click();
  await settled(opened);
  assert.ok((await coloursOf(opened, ".flame-canvas")) > 3);
  await opened.done();
  // Before the first answer, no axis pretends to know something.
  const waiting = await page(view, "view=table", { serviceWorkers: "block" });
  await waiting.route(/\/api\/1\/timeline/, () => {});
  await waiting.evaluate(() => location.reload());
  await waiting.locator(".timeline-skeleton").waitFor();
  assert.match(await waiting.locator(".timeline").textContent(), /Reading…/);
  assert.equal(await waiting.locator(".timeline-plots").count(), 0);
  await waiting.done();
});

test("figures of another question stay dimmed when the new one is cancelled", async () => {
  const view = await viewer([recording("service.hw")]);
  const opened = await page(view, "view=table&by=function");
  await opened.evaluate(() => {
    const real = window.fetch;
    window.fetch = (address, options) => (/\/rows\?.*by=module/.test(String(address)) ? new Promise((_, reject) => options.signal.addEventListener("abort", () => reject(options.signal.reason))) : real(address, options));
  });
  await opened.evaluate(() => { location.hash = "view=table&by=module"; });
  await opened.locator(".table-view").getByRole("button", { name: "Cancel" }).click();
  await opened.locator(".table-view").getByText("cancelled").waitFor();
  assert.ok((await rows(opened)).length > 0);
  assert.equal(await opened.locator(".table-view.old").count(), 1);
  await go(opened, "view=table&by=function");
  assert.equal(await opened.locator(".table-view.old").count(), 0);
  await opened.done();
});

test("a timeline and bands that cannot be made say why", async () => {
  const view = await viewer([recording("service.hw")]);
  const opened = await page(view);
  await opened.route(/\/api\/1\/timeline\?.*filter=/, (route) => route.fulfill({ status: 507, contentType: "text/plain", body: "too many changes to sort\n" }));
  await go(opened, "filter=size:64..");
  assert.match(await opened.locator(".timeline .problem").textContent(), /too many changes to sort/);
  await opened.route(/\/api\/1\/bands/, (route) => route.fulfill({ status: 507, contentType: "text/plain", body: "too many rows to stack\n" }));
  await go(opened, "stack=function");
  assert.match(await opened.locator(".timeline .problem").textContent(), /too many rows to stack/);
  await opened.done();
});

test("a page of rows that comes late is not shown among the rows of another question", async () => {
  const place = folder();
  const lines = Array.from({ length: 900 }, (_, at) => JSON.stringify({ event: "allocate", address: (at + 1) * 65536, size: 1000 + at, time_ns: at + 1, stack: [`leaf_${at}`, `caller_${at}`, "main"] }));
  writeFileSync(join(place, "many.jsonl"), lines.join("\n"));
  highwater("import", join(place, "many.jsonl"), "-o", join(place, "many.hw"));
  const opened = await page(await viewer([join(place, "many.hw")]), "view=table&by=function");
  // The second page of the first question comes after the answer to the second one, and is not aborted in time.
  await opened.evaluate(() => {
    const real = window.fetch;
    window.fetch = (address, options) => {
      if (!/\/rows\?.*offset=[1-9]/.test(String(address)) || /sort=name|order=asc/.test(String(address))) return real(address, options);
      return real(address, { ...options, signal: undefined }).then((answer) => new Promise((resolve) => { window.release = () => resolve(answer); }));
    };
  });
  await opened.locator(".table-body").evaluate((body) => { body.scrollTop = body.scrollHeight / 2; });
  await opened.waitForFunction(() => window.release);
  await opened.evaluate(() => { location.hash = "view=table&by=function&order=asc"; });
  await settled(opened);
  await opened.evaluate(() => window.release());
  await opened.locator(".table-body").evaluate((body) => { body.scrollTop = body.scrollHeight / 2; });
  await settled(opened);
  await opened.waitForFunction(() => ![...document.querySelectorAll(".table-row")].some((row) => row.textContent === "…"));
  const shown = await opened.$$eval(".table-row", (elements) => elements.map((row) => [Number(row.getAttribute("aria-rowindex")) - 2, row.querySelector(".name").textContent.trim()]));
  const answer = await opened.evaluate(async () => (await (await fetch("api/1/rows?source=0&metric=live&at=peak&by=function&order=asc&limit=2000")).text()).trim().split("\n").at(-1));
  const expected = JSON.parse(answer).result.rows.map((row) => row.key);
  assert.deepEqual(shown, shown.map(([index]) => [index, expected[index]]));
  await opened.done();
});

test("a table prints all its rows", async () => {
  const view = await viewer([recording("service.hw")]);
  const opened = await page(view, "view=table&by=function&metric=allocated", { viewport: { width: 1280, height: 420 } });
  const { count: all } = await api(view, "rows?source=0&by=function&metric=allocated");
  const onScreen = await opened.locator(".table-row").count();
  assert.ok(onScreen < all, `${onScreen} of ${all}`);
  await opened.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await opened.waitForFunction((most) => document.querySelectorAll(".table-row").length === most, Math.min(all, 200));
  await opened.evaluate(() => dispatchEvent(new Event("afterprint")));
  await opened.waitForFunction((most) => document.querySelectorAll(".table-row").length === most, onScreen);
  await opened.done();
});

test("a deep recursion is shown in all views, and an answer over its limit is told", async () => {
  const place = folder();
  const line = (depth) => ({ event: "allocate", address: depth * 64, size: 16, time_ns: depth, stack: Array(depth).fill("descend").concat("main") });
  writeFileSync(join(place, "deep.jsonl"), Array.from({ length: 150 }, (_, at) => JSON.stringify(line(2400 + at))).join("\n"));
  highwater("import", join(place, "deep.jsonl"), "-o", join(place, "deep.hw"));
  const view = await viewer([join(place, "deep.hw")]);
  const opened = await page(view);
  for (const name of ["overview", "flame", "table", "blocks", "leaks", "growth", "compare"]) {
    await go(opened, `view=${name}`);
    assert.equal(await opened.locator(".problem").count(), 0, name);
  }
  await go(opened, "view=table&by=site");
  await opened.locator(".table-row").first().click();
  await settled(opened);
  assert.equal(await opened.locator(".picked .stack li").count(), 2048, "the innermost frames");
  // As lists the same rows are too much, and whoever asks for them is told so.
  const { error } = await api(view, "rows?limit=10000");
  assert.equal(error.kind, "too_large");
  assert.match(error.what, /more than 262,144 frames.*stacks=table/);
  await opened.route(/\/api\/1\/rows/, (route) => route.fulfill({ status: 507, contentType: "text/plain", body: `${error.what}\n` }));
  await go(opened, "view=table&by=module");
  assert.match(await opened.locator(".status-line.problem").first().textContent(), /more than 262,144 frames/);
  await opened.done();
});

test("a file that is removed while it is open is told, and the others go on", async () => {
  const place = folder();
  copyFileSync(recording("service.hw"), join(place, "gone.hw"));
  const view = await viewer([join(place, "gone.hw"), recording("service.hw")]);
  const opened = await page(view);
  assert.ok((await figures(opened)).peak_bytes > 0);
  rmSync(join(place, "gone.hw"));
  await opened.locator(".problems").waitFor({ timeout: 15_000 });
  assert.match(await opened.locator(".problems").textContent(), /gone\.hw/);
  await opened.locator("select.source").selectOption("1");
  await settled(opened);
  assert.equal(await opened.locator(".problems").count(), 0);
  assert.ok((await figures(opened)).peak_bytes > 0);
  await opened.done();
});

test("a question whose answer is no longer needed is aborted", async () => {
  const view = await viewer([recording("service.hw")]);
  const opened = await page(view);
  // A server that never answers this one.
  await opened.evaluate(() => {
    const real = window.fetch;
    window.asked = 0;
    window.given = 0;
    window.fetch = (address, options) => {
      if (!address.includes("/tree?")) return real(address, options);
      window.asked += 1;
      return new Promise((_, reject) => options.signal.addEventListener("abort", () => { window.given += 1; reject(options.signal.reason); }));
    };
  });
  await opened.keyboard.press("2");
  await opened.locator(".flame-view .status-line progress").waitFor();
  await opened.waitForFunction(() => window.asked === 1);
  assert.equal(await opened.evaluate(() => window.given), 0);
  await opened.keyboard.press("3");
  await opened.waitForFunction(() => window.given === 1);
  await settled(opened);
  assert.ok((await rows(opened)).length > 0);
  await opened.done();
});

test("a server that is killed is told, and what was on the page stays", async () => {
  const view = await viewer([recording("service.hw")]);
  const opened = await page(view);
  const before = await figures(opened);
  await view.stop();
  await opened.locator(".problems").waitFor({ timeout: 15_000 });
  assert.match(await opened.locator(".problems").textContent(), /does not answer/);
  await opened.locator("main").getByText("The server has ended: this is the last state.").first().waitFor();
  assert.deepEqual(await figures(opened), before);
  await opened.done();
});

test("a viewer that was begun again at the same port is told from one that is silent, and what was on the page stays", async () => {
  const view = await viewer([recording("service.hw")]);
  const opened = await page(view, "view=table");
  const before = await rows(opened);
  const { port } = new URL(view.origin);
  await view.stop();
  const again = await viewer([recording("service.hw")], { options: ["--port", port] });
  const problems = opened.locator(".problems");
  await opened.waitForFunction(() => /belongs to a viewer that has ended; open the address that the new one printed/.test(document.querySelector(".problems")?.textContent ?? ""), null, { timeout: 15_000 });
  assert.doesNotMatch(await problems.textContent(), /does not answer/);
  // The line takes room: the last row may be below the edge now.
  const kept = await rows(opened);
  assert.ok(kept.length >= before.length - 2);
  assert.deepEqual(kept, before.slice(0, kept.length));
  // Nothing is saved that is not there.
  assert.equal(await opened.getByText("Save page").count(), 0);
  // With the new address in another tab of the same browser, this one is known again.
  const other = await opened.context().newPage();
  await other.goto(again.address);
  await problems.waitFor({ state: "detached", timeout: 15_000 });
  assert.deepEqual(await rows(opened), before);
  await opened.done();
});
