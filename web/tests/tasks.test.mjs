// Memory by task: a program with asynchronous tasks on four threads.
import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, choiceOf, go, json, page, recording, rows, settled, viewer } from "./support.mjs";

const file = recording("tasks.hw");
const view = await viewer([file]);
const report = json("report", file, "--by", "task", "--top", "0");
const named = (name) => report.tasks.find((task) => task.name === name);

test("a table by task, and what one task holds", async () => {
  const opened = await page(view, "view=table&at=end&by=task");
  const shown = await rows(opened);
  for (const task of report.tasks) {
    const row = shown.find((cells) => cells.some((cell) => cell === task.name));
    assert.ok(row?.some((cell) => cell.includes(bytes(task.live_bytes))), `${task.name}: ${row}`);
  }
  await opened.locator(".table-row", { hasText: "log_in: session" }).first().click();
  await opened.getByRole("button", { name: "Only this task" }).click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("filter"), "task:log_in: session");
  const all = await opened.locator(".tools small").textContent();
  assert.ok(all.includes(`${bytes(named("log_in: session").live_bytes)} in all`), all);
  await go(opened, `view=blocks&at=end&filter=${encodeURIComponent("task:log_in: session")}`);
  const blocks = await rows(opened);
  assert.ok(blocks.length > 5 && blocks.every((cells) => cells.includes("log_in: session")), String(blocks[0]));
  await opened.done();
});

test("a filter by task is offered with the tasks that there are", async () => {
  const opened = await page(view, "view=table&at=end");
  await opened.locator("#add-filter").click();
  await opened.getByLabel("What", { exact: true }).selectOption("task");
  const offered = await opened.getByLabel("Task", { exact: true }).locator("option").allTextContents();
  assert.deepEqual([...offered].sort(), ["choose a task", ...report.tasks.map((task) => task.name)].sort());
  await opened.getByLabel("Task", { exact: true }).selectOption("fetch");
  await opened.getByRole("button", { name: "Add", exact: true }).click();
  await settled(opened);
  const all = await opened.locator(".tools small").textContent();
  assert.ok(all.includes(`${bytes(named("fetch").live_bytes)} in all`), all);
  await opened.done();
});

test("without tasks, neither the grouping nor the filter is offered", async () => {
  const other = await viewer([recording("service.hw")]);
  const opened = await page(other, "view=table&at=end");
  assert.ok(!(await opened.locator("#by option").allTextContents()).includes("task"));
  await opened.locator("#add-filter").click();
  assert.ok(!(await opened.getByLabel("What", { exact: true }).locator("option").allTextContents()).includes("task"));
  await opened.done();
});
