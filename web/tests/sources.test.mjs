// What is no recording: object logs with their types, memory images with their objects.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { bytes, choiceOf, coloursOf, count, go, json, page, picture, recording, rows, settled, viewer } from "./support.mjs";

test("an object log has its types, and whether it can be believed", async () => {
  const file = recording("objects.log");
  const view = await viewer([file]);
  const opened = await page(view, "view=types");
  const report = json("objects", file);
  assert.match(await opened.locator(".trust").textContent(), new RegExp(report.trust.sentence.slice(0, 20)));
  const leaking = report.types.toSorted ? report.types.toSorted((a, b) => b.live_bytes - a.live_bytes) : [...report.types].sort((a, b) => b.live_bytes - a.live_bytes);
  const shown = await rows(opened);
  assert.equal(shown[0].at(-1), leaking[0].type);
  assert.ok(!(await opened.locator(".table-head").textContent()).includes("Each iteration"));
  assert.equal(shown[0][0], bytes(leaking[0].live_bytes));
  assert.equal(shown[0][1], count(leaking[0].live_objects));
  assert.equal(shown.filter((row) => row.at(-1).endsWith(" perfect")).length, report.perfect.length);
  await go(opened, "view=flame");
  assert.ok((await coloursOf(opened, ".flame-canvas")) > 2);
  await opened.done();
});

test("growth per iteration is told for each type, with the rounds of the one that is chosen", async () => {
  const file = recording("rounds.log");
  const { iterations } = json("objects", file);
  assert.ok(iterations.ends.length > 12);
  const opened = await page(await viewer([file]), "view=types");
  const shown = await rows(opened);
  for (const { type, sentence, survivors } of iterations.types) {
    const row = shown.findIndex((cells) => cells.at(-1) === type);
    assert.equal(shown[row].at(-2), sentence);
    const bars = opened.locator(".table-row").nth(row).locator(".small-bars");
    assert.equal(await bars.getAttribute("aria-label"), `Left behind by each iteration: ${survivors.map((each) => each.objects).join(", ")}`);
    assert.equal((await bars.locator("path").getAttribute("d")).split("M").length - 1, survivors.length);
  }
  await picture(opened, "types");
  // The largest growth first.
  await opened.getByRole("button", { name: "Growth" }).click();
  await settled(opened);
  const steadiest = iterations.types.filter((each) => each.each).toSorted((a, b) => b.each.bytes - a.each.bytes)[0];
  assert.equal((await rows(opened))[0].at(-1), steadiest.type);
  await opened.locator(".table-row").first().click();
  await settled(opened);
  const rounds = await opened.$$eval(".iterations tbody tr", (lines) => lines.map((line) => [...line.children].map((cell) => cell.textContent)));
  assert.deepEqual(rounds, steadiest.survivors.map((each, index) => {
    const end = iterations.ends[index];
    return [end.name, count(each.objects), bytes(each.bytes), end.memory_bytes === null ? "" : bytes(end.memory_bytes)];
  }));
  await opened.getByRole("button", { name: "Who makes it" }).click();
  await settled(opened);
  assert.equal(await opened.locator(".chip-text").textContent(), `type ${steadiest.type}`);
  const { live_bytes } = json("objects", file).types.find((each) => each.type === steadiest.type);
  assert.ok((await opened.locator("#flame-details").textContent()).startsWith(`${bytes(live_bytes)} in all`));
  await opened.done();
});

test("an image is a treemap by what is kept, objects are looked at, and two images are compared", async () => {
  const [first, second] = [recording("ledger-1.img"), recording("ledger-2.img")];
  const view = await viewer([second, first]);
  const opened = await page(view, "view=image");
  const heap = json("image", "heap", second);
  assert.match(await opened.locator(".tools small").textContent(), new RegExp(`^${bytes(heap.live_bytes)} in ${count(heap.live_objects)} objects`));
  assert.ok((await coloursOf(opened, ".treemap canvas")) > 3);
  // Siblings of one shape are one cell; the first that is a single object has an address.
  await opened.locator(".treemap canvas").focus();
  const told = opened.locator(".treemap .flame-details");
  for (let step = 0; step < 60 && !/ at 0x/.test(await told.textContent()); step += 1) await opened.keyboard.press("ArrowRight");
  const address = / at (0x[0-9a-f]+)/.exec(await told.textContent())[1];
  await opened.keyboard.press("Enter");
  await settled(opened);
  assert.match(await opened.locator(".picked").textContent(), new RegExp(`${address}.*Kept by`));
  await opened.keyboard.press("Escape");
  await settled(opened);
  assert.match(await opened.locator(".picked").textContent(), /By shape/);
  // A shape is found in the picture and in the lists; it has a menu, as an object has.
  const shape = heap.shapes[0].shape;
  const before = await opened.$eval(".treemap canvas", (canvas) => canvas.toDataURL());
  await opened.locator(".shapes button").first().click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("search"), shape);
  assert.notEqual(await opened.$eval(".treemap canvas", (canvas) => canvas.toDataURL()), before);
  const items = () => opened.$$eval("[role=menuitem]", (all) => all.map((each) => each.firstChild.textContent));
  await opened.locator(".shapes li").first().click({ button: "right" });
  assert.ok((await items()).includes("Find in the picture") && (await items()).includes("Copy name"));
  await opened.keyboard.press("Escape");
  await opened.locator(".shapes button").first().click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("search"), null);
  const [saved] = await Promise.all([opened.waitForEvent("download"), opened.getByRole("button", { name: "CSV" }).click()]);
  assert.equal(readFileSync(await saved.path(), "utf8").trim().split("\r\n").length, heap.shapes.length + 1);
  const largest = heap.largest[0].address;
  await go(opened, `view=image&pick=${largest}`);
  await picture(opened, "image");
  const { object } = json("image", "show", second, largest);
  const text = await opened.locator(".picked").textContent();
  assert.ok(text.includes(object.shape) && text.includes(bytes(object.retained_bytes)), text);
  await go(opened, "view=image&source=1&other=0");
  const difference = json("image", "diff", first, second);
  assert.match(await opened.locator(".image-compare").textContent(), new RegExp(`${bytes(difference.came.bytes)} in ${count(difference.came.count)} objects came`));
  await opened.done();
});

test("a canister's snapshot is a folder, and its regions of stable memory have owners", async () => {
  const folder = recording("canister");
  const opened = await page(await viewer([folder]), "view=image");
  const { stable, live_bytes } = json("image", "heap", folder);
  assert.match(await opened.locator(".tools small").textContent(), new RegExp(`^${bytes(live_bytes)} .*stable memory ${bytes(stable.bytes)}$`));
  const rows = await opened.getByRole("list", { name: "Regions of stable memory" }).getByRole("listitem").allTextContents();
  assert.equal(rows.length, stable.regions.length);
  assert.equal(rows[0], `${bytes(stable.regions[0].reserved_bytes)} users.data region ${stable.regions[0].id}`);
  assert.ok(rows.some((row) => row.includes("nothing leads to it any more")), rows.join("; "));
  await opened.done();
});

test("an image fits into a narrow window", async () => {
  const opened = await page(await viewer([recording("ledger-2.img")]), "view=image", { viewport: { width: 640, height: 700 } });
  assert.equal(await opened.evaluate(() => document.documentElement.scrollWidth), 640);
  const [picture, side] = await Promise.all([opened.locator(".treemap canvas").boundingBox(), opened.locator(".picked").boundingBox()]);
  assert.ok(picture.width > 500 && picture.height > 80, JSON.stringify(picture));
  assert.ok(side.width <= 640 && side.y >= picture.y + picture.height - 1, JSON.stringify([picture, side]));
  await opened.done();
});
