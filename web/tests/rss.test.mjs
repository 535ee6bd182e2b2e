// Where the resident memory is: rows that add up, sites that pin pages, a picture of the heap, curves, and the same in a saved page.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { api, bytes, choiceOf, coloursOf, count, figures, folder, go, highwater, json, page, picture, recording, rows, settled, viewer } from "./support.mjs";

const file = recording("fragmented.hw");
const view = await viewer([file]);
const answer = await api(view, "rss?source=0&by=type&limit=2000");
const end = answer.instants.at(-1);

const press = async (opened, name, role = "button") => {
  await opened.getByRole(role, { name, exact: true }).click();
  await settled(opened);
};
const names = async (opened) => (await rows(opened)).map((row) => row.at(-1));

test("the first thing to see is what is resident, and its parts add up to it", async () => {
  const opened = await page(view);
  await press(opened, "Where the resident memory is");
  assert.equal(choiceOf(opened).get("view"), "rss");
  const shown = await opened.$$eval(".rss-rows [data-resident]", (elements) => elements.map((each) => [each.dataset.row, Number(each.dataset.resident)]));
  assert.deepEqual(shown, answer.rows.filter((row) => row.resident_bytes > 0 || row.size_bytes > 0).map((row) => [row.key, row.resident_bytes]));
  const sum = shown.reduce((all, [, resident]) => all + resident, 0);
  assert.equal((await figures(opened)).rss_sum, sum);
  assert.ok(Math.abs(sum - answer.rss_bytes) <= Math.max(answer.uncertain_bytes, sum / 100, 1 << 20), `${sum} and ${answer.rss_bytes}`);
  assert.match(await opened.locator(".rss-head").textContent(), new RegExp(`without Highwater's agent: ${bytes(answer.without_agent_bytes)}`));
  // The bar has the same parts, as wide as their bytes.
  const bar = await opened.$$eval(".rss-bar span", (elements) => elements.map((each) => each.getBoundingClientRect().width));
  assert.equal(bar.length, answer.rows.filter((row) => row.resident_bytes > 0).length);
  assert.deepEqual(await opened.$$eval(".finding p", (elements) => elements.map((each) => each.firstChild.textContent)), answer.findings.map((finding) => finding.sentence.replaceAll("`", "")));
  await picture(opened, "rss");
  await opened.done();
});

test("the instants that were recorded can be chosen, and A moves there", async () => {
  assert.ok(answer.instants.length >= 2, JSON.stringify(answer.instants));
  const opened = await page(view, "view=rss");
  const chooser = opened.getByLabel("Instant", { exact: true });
  assert.equal(await chooser.inputValue(), String(answer.at_ns));
  assert.equal(await chooser.locator("option").count(), answer.instants.length);
  await chooser.selectOption(String(end.at_ns));
  await settled(opened);
  assert.equal(choiceOf(opened).get("at"), String(end.at_ns));
  const then = await api(view, `rss?source=0&at=${end.at_ns}`);
  assert.equal((await figures(opened)).rss_sum, then.sum_bytes);
  // Before the first of them nothing is known, and the page leads back.
  await go(opened, "view=rss&at=1");
  assert.match(await opened.locator(".rss-view").textContent(), /is known from/);
  await press(opened, "At the RSS peak");
  assert.equal((await figures(opened)).rss_sum, answer.sum_bytes);
  await opened.done();
});

test("sites show how many pages they pin, and lead to stacks, blocks and pages", async () => {
  const opened = await page(view, `view=rss&part=sites&at=${end.at_ns}`);
  await opened.getByRole("button", { name: /^Pinned/ }).click();
  await settled(opened);
  const { sites } = await api(view, `rss?source=0&at=${end.at_ns}&sort=pinned&limit=2000`);
  const shown = await rows(opened);
  assert.deepEqual(shown.slice(0, 5).map((row) => row[5]), sites.slice(0, 5).map((site) => (site.pinned_bytes > 0 ? bytes(site.pinned_bytes) : "")));
  const sessions = sites.find((site) => site.stack.some((frame) => frame.function?.includes("open_sessions")) && site.blocks === 5000);
  assert.ok(sessions.pinned_bytes > 10 * sessions.resident_bytes, JSON.stringify(sessions));
  await opened.locator(".table-row", { hasText: count(5000) }).first().click();
  await settled(opened);
  assert.match(await opened.locator(".picked").textContent(), new RegExp(`5,000 blocks.*They pin ${bytes(sessions.pinned_bytes)} of pages`));
  assert.match(await opened.locator(".picked .stack").textContent(), /open_sessions/);
  await press(opened, "Its blocks");
  assert.equal(choiceOf(opened).get("view"), "blocks");
  assert.match(await opened.locator(".tools small").textContent(), /^5,000 blocks/);
  await opened.goBack();
  await settled(opened);
  await press(opened, "Its pages");
  assert.equal(choiceOf(opened).get("part"), "map");
  assert.equal(await opened.locator(".heap-map-legend button[aria-pressed=true]").count(), 1);
  await opened.done();
});

test("types and files have their resident bytes", async () => {
  const opened = await page(view, "view=rss&part=types");
  assert.deepEqual((await names(opened)).slice(0, 3), answer.groups.slice(0, 3).map((group) => group.key));
  assert.deepEqual((await rows(opened))[0][1], bytes(answer.groups[0].resident_bytes));
  await press(opened, "Files");
  assert.deepEqual((await names(opened)).slice(0, 3), answer.files.slice(0, 3).map((each) => each.path));
  await opened.done();
});

test("the pages of the heap are drawn, zoomed with the wheel, a drag and keys, and explained", async () => {
  const opened = await page(view, `view=rss&part=map&at=${end.at_ns}`);
  await picture(opened, "heap-pages");
  assert.ok((await coloursOf(opened, ".cells")) > 3);
  const map = await api(view, `rss/map?source=0&at=${end.at_ns}`);
  assert.match(await opened.locator(".heap-areas").textContent(), /main heap/);
  // A picture that is there asks for no other: what is shown while it waits takes no room from it.
  let asked = 0;
  opened.on("request", (request) => { if (request.url().includes("rss/map")) asked += 1; });
  await opened.waitForTimeout(600);
  assert.equal(asked, 0);
  const shownPages = () => { const node = choiceOf(opened).get("node"); const [from, to] = node ? node.split("-").map(Number) : [0, map.pages]; return { from, to }; };

  const cells = await opened.locator(".cells").boundingBox();
  await opened.mouse.move(cells.x + 40, cells.y + 20);
  const tip = await opened.locator(".tip").textContent();
  assert.match(tip, /^0x[0-9a-f]+, .*main heap/);
  await opened.mouse.wheel(0, -240);
  await opened.waitForTimeout(300);
  await settled(opened);
  const wheeled = shownPages();
  assert.ok(wheeled.to - wheeled.from < map.pages, opened.url());

  await opened.mouse.move(cells.x + 20, cells.y + 4);
  await opened.mouse.down();
  await opened.mouse.move(cells.x + 400, cells.y + 4, { steps: 4 });
  await opened.mouse.up();
  await settled(opened);
  const dragged = shownPages();
  assert.ok(dragged.to - dragged.from < wheeled.to - wheeled.from);
  // Now each cell is a page, and its figures are exact.
  const part = await api(view, `rss/map?source=0&at=${end.at_ns}&first=${dragged.from}&end=${dragged.to}`);
  await opened.locator(".cells").focus();
  await opened.keyboard.press("ArrowRight");
  await opened.keyboard.press("ArrowRight");
  assert.match(await opened.locator("#heap-map-details").textContent(), new RegExp(`^0x${part.cells[1].address.toString(16)}`));
  await opened.keyboard.press("Escape");
  await settled(opened);
  assert.equal(choiceOf(opened).get("node"), null);
  await opened.keyboard.press("Enter");
  await settled(opened);
  assert.ok(choiceOf(opened).get("node"));
  await press(opened, "All pages");
  assert.equal(choiceOf(opened).get("node"), null);
  await opened.done();
});

test("the switch shows the heap, the mappings, or both", async () => {
  const mixed = recording("mixed.hw");
  const opened = await page(await viewer([mixed]));
  assert.equal((await figures(opened)).live_bytes, 5096);
  await press(opened, "heap");
  assert.deepEqual(choiceOf(opened).getAll("filter"), ["heap:malloc"]);
  assert.equal((await figures(opened)).live_bytes, 1000);
  await press(opened, "mappings");
  assert.deepEqual(choiceOf(opened).getAll("filter"), ["heap:mmap"]);
  assert.equal((await figures(opened)).live_bytes, 4096);
  await press(opened, "all");
  assert.deepEqual(choiceOf(opened).getAll("filter"), []);
  await opened.done();
});

test("curves are shown and hidden, and the RSS peak is an instant", async () => {
  const opened = await page(view);
  const legend = () => opened.$$eval(".curves span", (elements) => elements.map((each) => each.textContent.trim()));
  assert.ok((await legend()).includes("rss"), String(await legend()));
  await press(opened, "curves…");
  await opened.getByRole("group", { name: "Curves" }).getByLabel("rss").uncheck();
  await settled(opened);
  assert.ok(!(await legend()).includes("rss"));
  assert.deepEqual(choiceOf(opened).getAll("curve"), ["rss"]);
  await opened.keyboard.press("Escape");
  assert.equal(await opened.getByRole("group", { name: "Curves" }).count(), 0);
  await opened.locator("button.rss-peak").click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("at"), "rss-peak");
  assert.equal((await figures(opened)).live_bytes, json("report", file, "--at", "rss-peak").totals.live_bytes);
  await opened.done();
});

test("a saved page has the rows, the sites and the picture", async () => {
  const path = join(folder(), "rss.html");
  highwater("view", file, "--save", path);
  const offline = await page({ address: pathToFileURL(path).href }, "view=rss", { offline: true });
  assert.equal((await figures(offline)).rss_sum, answer.sum_bytes);
  await press(offline, "Sites");
  assert.ok((await rows(offline)).length > 0);
  await press(offline, "Heap pages");
  assert.ok((await coloursOf(offline, ".cells")) > 3);
  await offline.locator(".cells").focus();
  await offline.keyboard.press("+");
  await settled(offline);
  assert.ok(choiceOf(offline).get("node"));
  assert.ok((await coloursOf(offline, ".cells")) > 2);
  assert.equal(await offline.locator(".problems").count(), 0);
  await offline.done();
});
