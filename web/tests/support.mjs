// A viewer on real recordings, a browser in front of it, and what the command line says about the same.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { chromium } from "playwright-core";

export const HIGHWATER = process.env.HIGHWATER;
export const EXAMPLES = process.env.EXAMPLES;
export const RECORDINGS = process.env.RECORDINGS;
if (!HIGHWATER || !EXAMPLES || !RECORDINGS) throw new Error("these tests are started by web/test");

export const recording = (name) => join(RECORDINGS, name);

const ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-device-scale-factor=1"];
/** A promise, so that pages that are opened at the same time share one browser. */
let browser = null;

export function theBrowser() {
  browser ??= chromium.launch({ executablePath: "/usr/bin/chromium", args: ARGUMENTS });
  return browser;
}

after(async () => {
  await (await browser)?.close();
});

/** `highwater view` on these files. `stop` ends it, and so does the end of the tests. */
export async function viewer(files, { options = [], environment = {} } = {}) {
  // By their names alone, as a user in their folder would.
  const names = files.map((file) => (file.startsWith(`${RECORDINGS}/`) ? file.slice(RECORDINGS.length + 1) : file));
  const child = spawn(HIGHWATER, ["view", "--no-open", ...options, ...names], { cwd: RECORDINGS, stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...environment } });
  const address = await new Promise((resolve, reject) => {
    let said = "";
    child.stdout.on("data", (data) => {
      said += data;
      const found = /http:\/\/\S+/.exec(said);
      if (found && said.includes("\n")) resolve(found[0]);
    });
    child.stderr.on("data", (data) => (said += data));
    child.on("exit", (code) => reject(new Error(`highwater view ended with ${code}: ${said}`)));
  });
  const stop = () => new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", resolve);
    child.kill("SIGKILL");
  });
  after(stop);
  return { address, stop, pid: child.pid, origin: new URL(address).origin, token: new URL(address).searchParams.get("token") };
}

/** A page of its own, in a context of its own. Whatever leaves the machine, and whatever throws, fails the test that closes it. */
export async function page(view, fragment = "", context = {}) {
  const own = await (await theBrowser()).newContext({ viewport: { width: 1280, height: 720 }, colorScheme: "light", reducedMotion: "reduce", acceptDownloads: true, ...context });
  const opened = await own.newPage();
  const wrong = [];
  opened.on("pageerror", (error) => wrong.push(String(error.stack)));
  opened.on("request", (request) => {
    const url = new URL(request.url());
    if (!["127.0.0.1", ""].includes(url.hostname)) wrong.push(`asks ${request.url()}`);
  });
  opened.on("console", (message) => {
    if (message.type() === "error" && /Content Security Policy/.test(message.text())) wrong.push(message.text());
  });
  if (process.env.DIST && view.origin) {
    await opened.route(`${view.origin}/assets/*`, (route) => route.fulfill({ path: join(process.env.DIST, new URL(route.request().url()).pathname) }));
  }
  await opened.goto(`${view.address}${fragment ? `#${fragment}` : ""}`);
  await settled(opened);
  return Object.assign(opened, { done: async () => { await own.close(); assert.deepEqual(wrong, []); }, wrong });
}

/** Until every question of the page is answered. */
export async function settled(page) {
  // What was just done shows in the page's state after a frame or two, and in questions after a short rest: quiet counts if it lasts.
  for (let quiet = 0; quiet < 2;) {
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve, 30)))));
    const busy = await page.evaluate(() => document.querySelector(".app")?.getAttribute("aria-busy") !== "false");
    quiet = busy ? 0 : quiet + 1;
    if (busy) await page.waitForFunction(() => document.querySelector(".app")?.getAttribute("aria-busy") === "false", null, { timeout: 30_000 });
  }
}

export async function go(page, fragment) {
  await page.evaluate((to) => { location.hash = to; }, fragment);
  await settled(page);
}

export function highwater(...parameters) {
  return execFileSync(HIGHWATER, parameters, { cwd: RECORDINGS, encoding: "utf8", maxBuffer: 1 << 28 });
}

export function json(...parameters) {
  const document = JSON.parse(highwater(...parameters, "--json"));
  for (const list of Object.values(document)) {
    if (!Array.isArray(list) || list === document.stacks) continue;
    for (const row of list) if (row?.stack !== undefined) row.stack = framesOf(document, row.stack);
  }
  return document;
}

/** The frames of a stack of a document, innermost first: its `stacks` have each call once, [the caller's number, the frame's place]. */
function framesOf({ frames, stacks }, number) {
  const list = [];
  for (let at = number; at !== null; [at] = stacks[at]) list.push(frames[stacks[at][1]]);
  return list;
}

/** What the server itself answers, for tests that need an exact number. */
export async function api(view, path) {
  const response = await fetch(`${view.origin}/api/1/${path}`, { headers: { Authorization: `Bearer ${view.token}` } });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  const last = JSON.parse(text.trim().split("\n").at(-1));
  return last.result ?? last;
}

export async function figures(page) {
  return page.$$eval("[data-figure]", (elements) => Object.fromEntries(elements.map((each) => [each.dataset.figure, Number(each.dataset.value)])));
}

/** Waits until something holds; looks again and again for at most half a minute. */
export async function until(what, holds) {
  for (let tries = 0; tries < 300; tries += 1) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${what}: never`);
}

export const choiceOf = (page) => new URLSearchParams(new URL(page.url()).hash.slice(1));

/** The rows that a table shows, as texts. */
export async function rows(page) {
  return page.$$eval(".table-row", (elements) => elements.map((row) => [...row.children].map((cell) => cell.textContent.trim())));
}

/** Drags over the timeline, from one part of its width to another. */
export async function dragTimeline(page, from, to, y = 90) {
  const box = await page.locator(".layer").boundingBox();
  await page.mouse.move(box.x + box.width * from, box.y + y);
  await page.mouse.down();
  for (let step = 1; step <= 8; step += 1) await page.mouse.move(box.x + box.width * (from + ((to - from) * step) / 8), box.y + y);
  await page.mouse.up();
  await page.waitForTimeout(150);
  await settled(page);
}

/** How many different colours a canvas shows: one or two would be an empty one. */
export async function coloursOf(page, selector) {
  return page.$eval(selector, (canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    for (let at = 0; at < data.length; at += 4 * 31) seen.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
    return seen.size;
  });
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  let scaled = Math.abs(value);
  while (scaled >= 1023.95 && unit < 3) {
    scaled /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${scaled} B` : `${scaled.toFixed(1)} ${units[unit]}`;
}

export const count = (value) => value.toLocaleString("en-US");

export function folder() {
  const made = mkdtempSync(join(tmpdir(), "highwater-web-"));
  after(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** A picture for the documentation, if they are to be made. `keepsFocus`: of a menu, which the focus keeps open. */
export async function picture(page, name, { keepsFocus = false } = {}) {
  if (!process.env.PICTURES) return;
  await page.mouse.move(2, 718);
  if (!keepsFocus) await page.evaluate(() => document.activeElement?.blur());
  await settled(page);
  await page.screenshot({ path: join(process.env.PICTURES, `view-${name}.png`) });
}
