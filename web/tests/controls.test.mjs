// Menus, searches, matches and files that the page makes: what they do, and that their figures are those of the command line.
import assert from "node:assert/strict";
import { copyFileSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { api, bytes, choiceOf, count, go, json, page, picture, recording, rows, settled, viewer } from "./support.mjs";

const file = recording("service.hw");
const view = await viewer([file, recording("hostile.hw")]);
const items = (opened) => opened.$$eval("[role=menuitem]", (all) => all.map((each) => each.firstChild.textContent));

test("a row has a menu: by right click, by keys, and by its button; Escape returns the focus", async () => {
  const opened = await page(view, "view=table&metric=peak&by=site");
  await opened.locator(".table-row").nth(1).click({ button: "right" });
  assert.deepEqual(await items(opened), ["Focus", "Only inside", "Not inside", "Only this site", "Not this site", "Hide in the flame graph", "Treat as allocator", "Show its blocks", "Show its timeline", "Source", "Copy name", "Copy stack"]);
  await picture(opened, "menu", { keepsFocus: true });
  await opened.keyboard.press("Escape");
  assert.equal(await opened.locator("[role=menu]").count(), 0);

  await opened.locator(".table-body").focus();
  await opened.keyboard.press("ArrowDown");
  await settled(opened);
  for (const key of ["Shift+F10", "ContextMenu"]) {
    await opened.keyboard.press(key);
    await opened.getByRole("menu").waitFor();
    assert.equal(await opened.evaluate(() => document.activeElement.textContent.startsWith("Focus")), true, key);
    await opened.keyboard.press("ArrowUp");
    assert.equal(await opened.evaluate(() => document.activeElement.textContent), "Copy stack");
    await opened.keyboard.press("Escape");
    assert.equal(await opened.evaluate(() => document.activeElement.className), "table-body");
  }

  await opened.locator(".table-row").nth(2).hover();
  await opened.locator("button.more").click();
  await opened.getByRole("menuitem", { name: "Show its blocks" }).click();
  await settled(opened);
  const third = json("report", file, "--at", "peak", "--top", "0").sites[2];
  assert.equal(choiceOf(opened).get("view"), "blocks");
  assert.match(choiceOf(opened).get("filter"), /^site:\d+$/);
  await go(opened, `view=blocks&at=peak&filter=${choiceOf(opened).get("filter")}`);
  assert.match(await opened.locator(".tools small").textContent(), new RegExp(`^${count(third.live_blocks)} blocks, ${bytes(third.live_bytes)}`));
  await opened.done();
});

test("every list has the menu", async () => {
  const opened = await page(view);
  for (const [fragment, row] of [["view=overview", ".top li"], ["view=blocks&at=peak", ".table-row"], ["view=leaks", ".table-row"], ["view=growth", ".table-row"], ["view=compare&at=100000000&b=peak", ".table-row"], ["view=table&by=module", ".table-row"]]) {
    await go(opened, fragment);
    await opened.locator(row).first().click({ button: "right" });
    assert.ok((await items(opened)).includes("Copy name"), fragment);
    await opened.keyboard.press("Escape");
  }
  await opened.done();
});

test("a frame has the menu, and the bar keeps the frame that was hovered last", async () => {
  const opened = await page(view, "view=flame&metric=peak");
  const canvas = opened.locator(".flame-canvas");
  await canvas.hover({ position: { x: 40, y: 18 * 2 + 9 } });
  const name = await opened.locator("#flame-details .details-name").textContent();
  await opened.mouse.move(5, 5);
  assert.equal(await opened.locator("#flame-details .details-name").textContent(), name);
  await canvas.click({ button: "right", position: { x: 40, y: 18 * 2 + 9 } });
  assert.ok((await items(opened)).includes("Copy stack"));
  assert.equal(choiceOf(opened).get("node"), null, "a right click does not zoom");
  await opened.getByRole("menuitem", { name: "Only inside" }).click();
  await settled(opened);
  const filter = choiceOf(opened).get("filter");
  assert.match(filter, /^inside:equal:/);
  const inside = filter.slice("inside:equal:".length);
  const expected = json("report", file, "--at", "peak", "--top", "0").sites.filter((site) => site.stack.some((frame) => frame.function === inside)).reduce((sum, site) => sum + site.live_bytes, 0);
  await opened.mouse.move(5, 5);
  assert.equal((await api(view, `tree?source=0&metric=peak&filter=${encodeURIComponent(filter)}`)).total, expected);
  await opened.done();
});

test("a search steps through its matches", async () => {
  const opened = await page(view, "view=flame&metric=peak&search=/Session|Index/");
  const tree = await api(view, "tree?source=0&metric=peak");
  const matches = tree.node_name.filter((name, node) => node > 0 && tree.node_value[node] > 0 && /Session|Index/i.test(tree.names[name])).length;
  assert.ok(matches > 1);
  assert.equal(await opened.locator(".match-place").textContent(), `${matches} found`);
  const field = opened.locator("input.search");
  await field.focus();
  await field.press("Enter");
  await settled(opened);
  assert.equal(await opened.locator(".match-place").textContent(), `1 of ${matches}`);
  assert.match(await opened.locator("#flame-details .details-name").textContent(), /Session|Index/);
  await field.press("Shift+Enter");
  await settled(opened);
  assert.equal(await opened.locator(".match-place").textContent(), `${matches} of ${matches}`);
  await opened.getByRole("button", { name: "Next match" }).click();
  await settled(opened);
  assert.equal(await opened.locator(".match-place").textContent(), `1 of ${matches}`);
  await opened.done();
});

test("a regular expression is searched for in every list, and the total is of the rows that are found", async () => {
  const opened = await page(view);
  const { sites, at_ns } = json("report", file, "--at", "peak", "--top", "0");
  const found = sites.filter((site) => site.stack.some((frame) => /Session::open|compact/i.test(frame.function ?? "")));
  assert.ok(found.length > 0 && found.length < sites.length);
  await go(opened, "view=table&metric=peak&by=site&search=/session::open|compact/");
  assert.equal(await opened.locator(".tools > small").first().textContent(), `${count(found.length)} rows, ${bytes(found.reduce((sum, site) => sum + site.live_bytes, 0))} in all`);
  await go(opened, `view=leaks&at=${at_ns}&search=/session::open|compact/`);
  assert.equal(await opened.locator(".in-all").textContent(), `${count(found.length)} site${found.length === 1 ? "" : "s"}, ${bytes(found.reduce((sum, site) => sum + site.live_bytes, 0))} in all`);
  for (const name of ["flame", "table", "leaks", "growth", "compare"]) {
    await go(opened, `view=${name}&search=/(/`);
    assert.match(await opened.locator(".search-field .problem").textContent(), /not a regular expression/, name);
    if (name !== "flame") assert.equal((await rows(opened)).length, 0, name);
  }
  await opened.done();
});

test("the picture of a flame graph has its names as text, whatever they contain", async () => {
  const opened = await page(view, "source=1&view=flame&metric=allocated");
  const [saved] = await Promise.all([opened.waitForEvent("download"), opened.getByRole("button", { name: "SVG" }).click()]);
  const svg = readFileSync(await saved.path(), "utf8");
  assert.doesNotMatch(svg, /<script|<img/);
  const titles = await opened.evaluate((text) => [...new DOMParser().parseFromString(text, "image/svg+xml").querySelectorAll("g > title")].map((each) => each.textContent), svg);
  assert.ok(titles.includes("<script>window.harmed=4</script>"), titles.join("\n"));
  await opened.done();
});

test("the picture of a flame that stands upright has all of it", async () => {
  const opened = await page(view, "source=1&view=flame&metric=allocated&upright=1&library=1");
  const [saved] = await Promise.all([opened.waitForEvent("download"), opened.getByRole("button", { name: "SVG" }).click()]);
  const svg = readFileSync(await saved.path(), "utf8");
  const { height, tops } = await opened.evaluate((text) => {
    const picture = new DOMParser().parseFromString(text, "image/svg+xml");
    return { height: Number(picture.documentElement.getAttribute("height")), tops: [...picture.querySelectorAll("g > rect")].map((each) => [Number(each.getAttribute("y")), Number(each.getAttribute("height"))]) };
  }, svg);
  assert.ok(tops.length > 3);
  for (const [y, tall] of tops) assert.ok(y >= 0 && y + tall <= height, `${y} + ${tall} of ${height}`);
  await opened.done();
});

test("the side panel is resized by keys and by a drag", async () => {
  const opened = await page(view, "view=leaks");
  await opened.locator(".table-row").first().click();
  await settled(opened);
  const width = async () => Math.round((await opened.locator(".picked").boundingBox()).width);
  const before = await width();
  await opened.getByRole("separator", { name: "Width of the side panel" }).focus();
  await opened.keyboard.press("ArrowLeft");
  await opened.waitForFunction((old) => Math.round(document.querySelector(".picked").getBoundingClientRect().width) === old + 20, before);
  const box = await opened.getByRole("separator", { name: "Width of the side panel" }).boundingBox();
  await opened.mouse.move(box.x + 3, box.y + 40);
  await opened.mouse.down();
  await opened.mouse.move(box.x + 63, box.y + 40, { steps: 3 });
  await opened.mouse.up();
  assert.ok((await width()) < before);
  await opened.done();
});

test("nothing runs out at the side from 640 to 2560 pixels", async () => {
  for (const [width, height] of [[640, 700], [1024, 700], [2560, 1440]]) {
    const opened = await page(view, "", { viewport: { width, height } });
    for (const name of ["overview", "flame", "table", "blocks", "leaks", "growth", "compare"]) {
      await go(opened, `view=${name}&from=60000000&to=120000000&b=80000000&filter=size:16..65536`);
      const [all, beyond] = await opened.evaluate(() => [document.documentElement.scrollWidth, [...document.querySelectorAll(".header *, .bar *, .tools *")].filter((each) => each.getClientRects().length && each.getBoundingClientRect().right > innerWidth + 1).map((each) => each.outerHTML.slice(0, 80))]);
      assert.equal(all, width, `${name} at ${width}`);
      assert.deepEqual(beyond, [], `${name} at ${width}`);
    }
    await opened.done();
  }
});

test("the table is saved as CSV, with all rows and exact figures", async () => {
  const opened = await page(view, "view=table&metric=peak&by=site");
  const [saved] = await Promise.all([opened.waitForEvent("download"), opened.getByRole("button", { name: "CSV" }).click()]);
  const lines = readFileSync(await saved.path(), "utf8").trim().split("\r\n");
  const { sites } = json("report", file, "--at", "peak", "--top", "0");
  assert.equal(lines[0], "name,bytes,total,blocks,share,file,line");
  const live = sites.map((site) => site.live_bytes).filter((value) => value > 0);
  const values = lines.slice(1).map((line) => Number(line.replace(/"[^"]*"/, "").split(",")[1])).filter((value) => value > 0);
  assert.deepEqual(values.sort((a, b) => b - a), live.sort((a, b) => b - a));
  await opened.done();
});

test("a narrow table scrolls sideways, and its head with it", async () => {
  const opened = await page(view, "view=table&metric=temporary&by=function", { viewport: { width: 640, height: 700 } });
  const places = () => opened.evaluate(() => [".table-columns [role=columnheader]", ".table-row [role=gridcell]"].map((selector) => [...document.querySelectorAll(selector)].slice(0, 5).map((each) => Math.round(each.getBoundingClientRect().left))));
  const [head, cells] = await places();
  assert.deepEqual(head, cells);
  const scrolled = await opened.$eval(".table-body", (body) => { body.scrollLeft = 90; return body.scrollLeft; });
  assert.ok(scrolled > 0, "the columns need more than 640 pixels");
  await opened.waitForFunction((left) => document.querySelector(".table-head").scrollLeft === left, scrolled);
  const [headThen, cellsThen] = await places();
  assert.deepEqual(headThen, cellsThen);
  assert.equal(headThen[1], head[1] - scrolled);
  await opened.done();
});

test("on paper everything is drawn in the colours of paper", async () => {
  const pictures = [];
  for (const colorScheme of ["light", "dark"]) {
    const opened = await page(view, "view=flame&metric=peak", { colorScheme });
    await opened.mouse.move(2, 2);
    const canvases = () => opened.$$eval("canvas", (all) => all.map((canvas) => canvas.toDataURL()));
    const before = await canvases();
    assert.ok(before.length >= 3, "a flame graph, the curves and the rates");
    await opened.evaluate(async () => { dispatchEvent(new Event("beforeprint")); await Promise.resolve(); });
    pictures.push(await canvases());
    await opened.evaluate(() => dispatchEvent(new Event("afterprint")));
    await settled(opened);
    assert.deepEqual(await canvases(), before, `${colorScheme}: after it`);
    await opened.done();
  }
  assert.deepEqual(pictures[1], pictures[0]);
});

test("a function is hidden once, however often that is asked for", async () => {
  const opened = await page(view, "view=flame&metric=peak");
  await opened.locator(".flame-canvas").focus();
  await opened.keyboard.press("ArrowDown");
  await opened.keyboard.press("ArrowDown");
  // The second one may come before the answer to the first.
  await opened.evaluate(() => { for (let times = 0; times < 2; times += 1) document.querySelector(".flame-canvas").dispatchEvent(new KeyboardEvent("keydown", { key: "h", bubbles: true })); });
  await settled(opened);
  const hidden = choiceOf(opened).getAll("hide");
  assert.equal(hidden.length, 1, hidden.join());
  await opened.done();
});

test("the timeline is saved as CSV and as a picture, its bands with their names", async () => {
  const opened = await page(view);
  const saved = async (name) => {
    await opened.locator(".timeline").getByRole("button", { name: "save…" }).click();
    const [download] = await Promise.all([opened.waitForEvent("download"), opened.getByRole("menuitem", { name }).click()]);
    return [download.suggestedFilename(), readFileSync(await download.path(), "utf8")];
  };
  const [name, plain] = await saved("Save as CSV");
  assert.match(name, /^service-.*timeline\.csv$/);
  const lines = plain.trim().split("\r\n").map((line) => line.split(","));
  const column = (title) => lines.slice(1).map((cells) => Number(cells[lines[0].indexOf(title)]));
  const { totals } = json("report", file, "--top", "0");
  assert.equal(Math.max(...column("live_bytes_high")), totals.peak_bytes);
  assert.equal(column("live_bytes_last").at(-1), totals.live_bytes);
  await go(opened, "stack=function");
  const bands = await api(view, "bands?source=0&by=function&top=8&points=600");
  const [, stacked] = await saved("Save as CSV");
  const titles = stacked.split("\r\n")[0];
  for (const { key } of bands.bands) assert.ok(titles.includes(key.replaceAll('"', '""')), `${key} in ${titles}`);
  const [picture, svg] = await saved(/picture/);
  assert.match(picture, /^service-.*timeline-by-function\.svg$/);
  const drawn = await opened.evaluate((text) => {
    const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
    return { isBroken: parsed.querySelector("parsererror") !== null, paths: [...parsed.querySelectorAll("path title")].length, texts: parsed.documentElement.textContent };
  }, svg);
  assert.equal(drawn.isBroken, false);
  assert.ok(drawn.paths >= bands.bands.length + 1);
  await opened.done();
});

test("the head of a wide window has room for a long name", async () => {
  const long = recording(`a-recording-with-a-name-that-takes-more-than-three-hundred-pixels.hw`);
  copyFileSync(file, long);
  const opened = await page(await viewer([long]), "", { viewport: { width: 1600, height: 900 } });
  assert.ok(await opened.$eval(".header .source", (name) => name.scrollWidth <= name.clientWidth));
  await opened.done();
});

test("a tall window has longer lists", async () => {
  const shown = async (height) => {
    const opened = await page(view, "view=overview&at=peak", { viewport: { width: 2560, height } });
    const rows = await opened.locator(".top").first().locator("li").evaluateAll((all) => all.filter((each) => each.getClientRects().length).length);
    await opened.done();
    return rows;
  };
  const { sites } = json("report", file, "--at", "peak", "--top", "0");
  const most = sites.filter((site) => site.live_bytes > 0).length;
  assert.equal(await shown(1440), Math.min(24, most));
  assert.equal(await shown(900), Math.min(8, most));
});
