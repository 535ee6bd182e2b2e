// The types of a native program, as its stacks show them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, choiceOf, count, go, json, page, recording, rows, settled, viewer } from "./support.mjs";

const file = recording("typed.hw");
const view = await viewer([file]);
const { types, totals } = json("report", file, "--by", "type", "--top", "0");
const POINTS = "Vec<typed::Point>";
const UNKNOWN = "[Rust block] in typed::parse_config";

const heads = (opened) => opened.locator(".table-head [role=columnheader]").allTextContents();
const nameOf = (opened, type) => opened.locator(".table-row .name").getByText(type, { exact: true });
const names = async (opened) => (await rows(opened)).map((row) => row.at(-1));

async function pick(opened, type) {
  await nameOf(opened, type).click();
  await settled(opened);
}

async function press(opened, button) {
  await opened.getByRole("button", { name: button, exact: true }).click();
  await settled(opened);
}

test("the types of a Rust program have bytes, blocks, elements and the mean size of a block", async () => {
  const opened = await page(view, "at=end");
  await opened.getByRole("tab", { name: "Types" }).click();
  await settled(opened);
  assert.deepEqual(await heads(opened), ["Share", "", "Bytes ▼", "Blocks", "Elements", "Average", "Type"]);
  assert.deepEqual(await rows(opened), types.filter((each) => each.live_bytes > 0).map((each) => [
    `${((each.live_bytes / totals.live_bytes) * 100).toFixed(1)}%`, "", bytes(each.live_bytes), count(each.live_objects), each.elements === null ? "" : count(each.elements), bytes(Math.round(each.live_bytes / each.live_objects)), each.type,
  ]));
  const cells = (type) => rows(opened).then((all) => all.find((row) => row.at(-1) === type).slice(2, 6));
  assert.deepEqual(await cells(POINTS), ["23.4 KiB", "1", "1,000", "23.4 KiB"]);
  assert.deepEqual(await cells("Vec<String>"), ["2.3 KiB", "1", "100", "2.3 KiB"]);
  assert.deepEqual(await cells(UNKNOWN), ["4.9 KiB", "1", "", "4.9 KiB"]);
  await opened.done();
});

test("a type that is not known is dimmed and says so; a known one has its whole name on hover", async () => {
  const opened = await page(view, "view=types");
  const unknown = nameOf(opened, UNKNOWN);
  assert.equal(await unknown.getAttribute("title"), `${UNKNOWN}\nThe type is not known: docs, Names and types`);
  assert.equal(await nameOf(opened, POINTS).getAttribute("title"), POINTS);
  const colour = (name) => name.evaluate((element) => getComputedStyle(element).color);
  assert.notEqual(await colour(unknown), await colour(nameOf(opened, POINTS)));
  await opened.done();
});

test("types are searched, sorted and counted in the chosen window, by the chosen metric", async () => {
  const opened = await page(view, "view=types&search=string&at=end");
  assert.deepEqual(await names(opened), ["String", "Vec<String>"]);
  await go(opened, "view=types&sort=average&order=asc&at=end");
  assert.deepEqual((await names(opened))[0], "String");
  await press(opened, "Blocks");
  assert.deepEqual((await names(opened))[0], "String");
  await go(opened, "view=types&at=0");
  assert.ok(!(await names(opened)).includes(POINTS));
  // Blocks that are freed again have room for nothing.
  await go(opened, "view=types&metric=allocated");
  assert.ok((await names(opened)).includes(POINTS));
  assert.ok(!(await heads(opened)).includes("Elements"));
  await opened.done();
});

for (const type of [POINTS, UNKNOWN]) {
  test(`only ${type} is shown, with its sites`, async () => {
    const opened = await page(view, "view=types");
    await pick(opened, type);
    const maker = type === POINTS ? "typed::load_points" : "typed::parse_config";
    const sites = opened.locator(".picked .neighbours li");
    assert.equal(await sites.count(), 1);
    assert.match(await sites.textContent(), new RegExp(`${maker} .*typed\\.rs:\\d+`));
    await press(opened, "Only this type");
    assert.deepEqual(choiceOf(opened).getAll("filter"), [`type:${type}`]);
    assert.deepEqual(await names(opened), [type]);
    await sites.getByRole("button").click();
    await settled(opened);
    assert.equal(choiceOf(opened).get("view"), "table");
    assert.equal((await rows(opened)).length, 1);
    assert.match(await opened.locator(".picked .stack").textContent(), new RegExp(maker));
    await opened.done();
  });
}

test("who makes a type is a flame graph of its blocks", async () => {
  const opened = await page(view, "view=types&filter=size:1KiB..");
  await pick(opened, POINTS);
  await press(opened, "Who makes it");
  assert.equal(choiceOf(opened).get("view"), "flame");
  assert.deepEqual(choiceOf(opened).getAll("filter"), ["size:1KiB..", `type:${POINTS}`]);
  assert.ok((await opened.locator("#flame-details").textContent()).startsWith("23.4 KiB in all"));
  await opened.locator(".flame-canvas").focus();
  const walked = [];
  for (let step = 0; step < 20 && !walked.at(-1)?.startsWith("typed::load_points "); step += 1) {
    await opened.keyboard.press("ArrowDown");
    walked.push(await opened.locator("#flame-details .details-name").textContent());
  }
  assert.match(walked.at(-1), /^typed::load_points /);
  await opened.done();
});

test("the table by type has elements, too, and other tables have none", async () => {
  const opened = await page(view, "view=table&by=type");
  assert.ok((await heads(opened)).includes("Elements"));
  await go(opened, "view=table&by=site");
  assert.ok(!(await heads(opened)).includes("Elements"));
  await opened.done();
});

test("a file whose blocks have no types has no such view", async () => {
  const opened = await page(await viewer([recording("trace.ctf"), recording("ledger-1.img")]), "view=types");
  for (const source of [0, 1]) {
    await go(opened, `view=types&source=${source}`);
    assert.equal(await opened.getByRole("tab", { name: "Types" }).count(), 0);
  }
  await opened.done();
});
