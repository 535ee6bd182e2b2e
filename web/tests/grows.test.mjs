// A recording that is still being written.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { api, choiceOf, EXAMPLES, figures, folder, HIGHWATER, json, page, settled, until, viewer } from "./support.mjs";

test("the page follows a recording that grows, and an instant that was chosen stays where it is", async () => {
  const file = join(folder(), "growing.hw");
  const recorder = spawn(HIGHWATER, ["record", "-o", file, "--", join(EXAMPLES, "server"), "14"], { stdio: "ignore" });
  const ended = new Promise((resolve) => recorder.once("exit", resolve));
  after(() => recorder.kill("SIGKILL"));
  await until("something is recorded", () => existsSync(file) && statSync(file).size > 20_000);
  const view = await viewer([file]);
  const opened = await page(view);
  const growing = opened.locator(".growing");
  await growing.waitFor({ timeout: 15_000 });
  const allocated = async () => (await figures(opened)).allocated_bytes;
  const first = await allocated();
  await until("the figures follow", async () => (await allocated()) > first);

  // Functions have names, in the page and in the terminal, before the recorder has written any.
  const functionsOf = () => new Map(json("report", file, "--by", "function", "--metric", "allocated", "--top", "0").functions.map((each) => [each.name, each]));
  const early = [...functionsOf().keys()];
  assert.ok(early.some((name) => /server::/.test(name)), early.join(" "));
  const inPage = (await api(view, "rows?by=function&metric=allocated&limit=200")).rows.map((each) => each.key);
  assert.ok(inPage.some((name) => /server::/.test(name)), inPage.join(" "));

  // An instant that lies behind: its figure stays.
  await opened.locator(".layer").click({ position: { x: 200, y: 90 } });
  await settled(opened);
  const at = Number(choiceOf(opened).get("at"));
  const { live_bytes } = await figures(opened);
  const events = () => opened.locator(".facts").textContent();
  const before = await events();
  await until("it grows on", async () => (await events()) !== before);
  await settled(opened);
  assert.equal((await figures(opened)).live_bytes, live_bytes);

  await ended;
  const late = functionsOf();
  for (const name of [...early, ...inPage]) assert.ok(late.has(name), `${name} is called otherwise at the end`);
  const whole = json("report", file, "--at", `${at}ns`);
  await until("the last event is there", async () => (await allocated()) === json("report", file).totals.allocated_bytes);
  assert.equal((await figures(opened)).live_bytes, whole.totals.live_bytes);
  assert.equal(live_bytes, whole.totals.live_bytes);
  await growing.waitFor({ state: "detached", timeout: 20_000 });
  await opened.done();
});
