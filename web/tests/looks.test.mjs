import assert from "node:assert/strict";
import { test } from "node:test";
import { choiceOf, page, picture, recording, settled, viewer } from "./support.mjs";

const view = await viewer([recording("service.hw")]);
const paper = (opened) => opened.evaluate(() => getComputedStyle(document.body).backgroundColor);
const brightness = (colour) => colour.match(/\d+/g).slice(0, 3).reduce((sum, each) => sum + Number(each), 0) / 3;

test("dark where the machine is dark, and where the user wants it", async () => {
  const machine = await page(view, "", { colorScheme: "dark" });
  assert.ok(brightness(await paper(machine)) < 60);
  await machine.getByRole("button", { name: /light/ }).click();
  assert.ok(brightness(await paper(machine)) > 200);
  await machine.done();

  const opened = await page(view, "view=flame&metric=peak");
  assert.ok(brightness(await paper(opened)) > 200);
  await opened.keyboard.press("d");
  await settled(opened);
  assert.ok(brightness(await paper(opened)) < 60);
  assert.equal(choiceOf(opened).get("theme"), "dark");
  // What is drawn changes, too.
  const pixel = await opened.$eval(".flame-canvas", (canvas) => [...canvas.getContext("2d").getImageData(200, 9, 1, 1).data]);
  assert.ok(pixel[0] < 120, String(pixel));
  await opened.keyboard.press("1");
  await settled(opened);
  await picture(opened, "dark");
  await opened.done();
});

test("the safe palette draws other colours", async () => {
  const opened = await page(view, "view=flame&metric=peak");
  const pixels = () => opened.$eval(".flame-canvas", (canvas) => canvas.toDataURL());
  const before = await pixels();
  await opened.keyboard.press("c");
  await settled(opened);
  assert.equal(choiceOf(opened).get("palette"), "safe");
  assert.notEqual(await pixels(), before);
  await opened.done();
});

test("everything is reached with the keys, and seen to be reached", async () => {
  const opened = await page(view);
  await opened.keyboard.press("?");
  await opened.getByRole("dialog").waitFor();
  await opened.keyboard.press("Escape");
  await opened.getByRole("dialog").waitFor({ state: "detached" });
  for (const [key, name] of [["2", "Flame graph"], ["3", "Table"], ["4", "Blocks"], ["5", "Leaks"], ["6", "Growth"], ["7", "Compare"], ["1", "Overview"]]) {
    await opened.keyboard.press(key);
    await settled(opened);
    assert.equal(await opened.getByRole("tab", { name, exact: true }).getAttribute("aria-selected"), "true", key);
  }
  await opened.keyboard.press("3");
  await settled(opened);
  const reached = new Set();
  let outlines = 0;
  for (let step = 0; step < 60; step += 1) {
    await opened.keyboard.press("Tab");
    const [what, outlined] = await opened.evaluate(() => {
      const element = document.activeElement;
      return [`${element.tagName} ${element.className} ${element.getAttribute("aria-label") ?? element.textContent.slice(0, 20)}`, getComputedStyle(element).outlineStyle !== "none"];
    });
    reached.add(what);
    if (outlined) outlines += 1;
  }
  for (const wanted of ["layer", "handle-a", "Table", "add", "Search", "table-body"]) assert.ok([...reached].some((each) => each.includes(wanted)), `${wanted} is not among ${[...reached].join("\n")}`);
  assert.ok(outlines >= 50, `${outlines} of 60 are outlined`);
  await opened.locator(".table-body").focus();
  await opened.keyboard.press("ArrowDown");
  await opened.keyboard.press("ArrowDown");
  await settled(opened);
  assert.ok(await opened.locator(".picked").isVisible());
  await opened.done();
});

test("at 1280 × 720 nothing is cut off at the side", async () => {
  for (const name of ["overview", "flame", "table", "blocks", "leaks", "growth", "compare", "rss"]) {
    const opened = await page(view, `view=${name}&from=60000000&to=120000000&b=80000000&filter=size:16..65536&filter=inside:contains:service`);
    const [width, beyond] = await opened.evaluate(() => [document.documentElement.scrollWidth, [...document.querySelectorAll("button, select, input, h2")].filter((each) => each.getBoundingClientRect().right > innerWidth + 1).map((each) => each.textContent)]);
    assert.equal(width, 1280);
    assert.deepEqual(beyond, [], name);
    await opened.done();
  }
});
