import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { after, test } from "node:test";
import { EXAMPLES, figures, folder, HIGHWATER, highwater, page, picture, settled, until, viewer } from "./support.mjs";

const place = folder();
process.env.HIGHWATER_SOCKET = join(place, "socket");

function start(command, parameters) {
  const child = spawn(command, parameters, { stdio: "ignore" });
  const stop = () => new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", resolve);
    child.kill("SIGKILL");
  });
  after(stop);
  return { pid: child.pid, stop };
}

test("a live process ticks, is taken a snapshot of, and compared with the last one; a collector that is gone is told", async () => {
  const collector = start(HIGHWATER, ["collector", "--quiet", "--store", join(place, "kept")]);
  const server = start(join(EXAMPLES, "server"), ["120"]);
  await until("the server is registered", () => { try { return highwater("ps").includes(String(server.pid)); } catch { return false; } });
  const view = await viewer([], { options: ["--live"] });
  const opened = await page(view, "view=live");
  const row = opened.locator(".table-row", { hasText: String(server.pid) });
  await row.waitFor();
  const collected = opened.locator(".live-view .tools small");
  assert.match(await collected.textContent(), /^1 process, .* live in all$/);
  assert.match(await collected.getAttribute("title"), /socket/);
  const live = () => row.locator("div").nth(4).textContent();
  const before = await live();
  await until("the figures tick", async () => (await live()) !== before);

  await row.getByRole("button", { name: "Snapshot now" }).click();
  await opened.locator("[data-figure=live_bytes]").waitFor();
  await settled(opened);
  const first = await figures(opened);
  assert.ok(first.live_bytes > 100_000, String(first.live_bytes));
  assert.match(await opened.locator(".top").first().textContent(), /Cache::page|Session::open/);
  // Where its resident memory is: more than what is live.
  await opened.getByRole("tab", { name: "RSS" }).click();
  await settled(opened);
  assert.ok((await figures(opened)).rss_sum > first.live_bytes);
  await opened.getByRole("tab", { name: "Live" }).click();
  await opened.waitForTimeout(1500);
  assert.equal(await opened.getByRole("grid", { name: "Snapshots" }).locator(".table-row").count(), 1);
  await row.getByRole("button", { name: "and compare" }).click();
  await opened.locator(".change-total").waitFor();
  await settled(opened);
  assert.ok(Number(await opened.locator(".change-total").getAttribute("data-change")) > 0);
  assert.match(await opened.locator(".table-row").first().textContent(), /Session::open/);
  // The same from the list of what was taken.
  const change = await opened.locator(".change-total").textContent();
  await opened.getByRole("tab", { name: "Live" }).click();
  const taken = opened.getByRole("grid", { name: "Snapshots" }).locator(".table-row");
  assert.deepEqual((await taken.allTextContents()).map((text) => /snapshot \d/.exec(text)?.[0]), ["snapshot 2", "snapshot 1"]);
  if (process.env.PICTURES) await opened.waitForTimeout(6000);
  await picture(opened, "live");
  await opened.getByRole("button", { name: "Compare with the one before" }).click();
  await settled(opened);
  assert.equal(await opened.locator(".change-total").textContent(), change);

  await collector.stop();
  await opened.getByRole("tab", { name: "Live" }).click();
  await opened.locator(".live-view .problem").waitFor({ timeout: 15_000 });
  assert.ok((await opened.locator(".live-view .problem").first().textContent()).length > 10);
  await opened.done();
});
