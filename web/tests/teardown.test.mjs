// A program that frees its memory at its end: leaks are judged before that, and the end is one click away.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { bytes, choiceOf, folder, highwater, page, recording, rows, settled, viewer } from "./support.mjs";

const made = folder();
const at = (number) => `0x${(number * 4096).toString(16)}`;
const lines = [{ event: "source", program: "tidy", pid: 7 }];
for (let number = 1; number <= 90; number += 1) lines.push({ event: "allocate", address: at(number), size: 1000, time_ns: number * 1000, stack: [number <= 80 ? "freed_at_the_end" : "kept", "main"] });
for (let number = 1; number <= 80; number += 1) lines.push({ event: "deallocate", address: at(number), time_ns: 99_000 + number });
writeFileSync(join(made, "tidy.jsonl"), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
highwater("import", "--force", join(made, "tidy.jsonl"), "-o", recording("tidy.hw"));

test("leaks are judged before the tear-down, and at the end if that is chosen", async () => {
  const opened = await page(await viewer([recording("tidy.hw")]), "view=leaks");
  assert.match(await opened.locator(".tools small").first().textContent(), /What is live at .*, before the program's tear-down/);
  assert.deepEqual((await rows(opened)).map((row) => row[1]), [bytes(80_000), bytes(10_000)]);
  await opened.getByRole("button", { name: "at the end instead" }).click();
  await settled(opened);
  assert.equal(choiceOf(opened).get("at"), "end");
  assert.deepEqual((await rows(opened)).map((row) => row[1]), [bytes(10_000)]);
  await opened.getByRole("button", { name: /^before its tear-down/ }).click();
  await settled(opened);
  assert.deepEqual((await rows(opened)).map((row) => row[1]), [bytes(80_000), bytes(10_000)]);
  await opened.done();
});

test("a saved page has the leaks that the page shows", async () => {
  const saved = join(made, "tidy.html");
  highwater("view", recording("tidy.hw"), "--save", saved);
  const opened = await page({ address: `file://${saved}` }, "view=leaks");
  assert.deepEqual((await rows(opened)).map((row) => row[1]), [bytes(80_000), bytes(10_000)]);
  await opened.done();
});
