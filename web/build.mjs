// Builds the page: dist/index.html, dist/assets/app.js, dist/assets/app.css. The same sources and locked dependencies give the same bytes.
//
//     node build.mjs [FOLDER]      into FOLDER instead of dist/
import { build } from "esbuild";
import { copyFile, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

// What of others becomes part of the page. Their licence, the same for all, wants its text and their names to go with it.
const BUNDLED = ["preact", "@preact/signals", "@preact/signals-core", "uplot"];

async function licences(here) {
  const texts = await Promise.all(BUNDLED.map((name) => readFile(join(here, "node_modules", name, "LICENSE"), "utf8")));
  const holders = texts.map((text, at) => `${BUNDLED[at]}: ${/^Copyright.*$/m.exec(text)[0]}`);
  const terms = texts.map((text) => text.slice(text.indexOf("Permission is hereby granted")).replace(/\s+/g, " ").trim());
  if (new Set(terms).size !== 1) throw new Error("the licences of what is bundled differ; the page must carry each of them");
  return `/*! This file contains parts under the MIT licence:\n${holders.join("\n")}\n\n${terms[0]} */`;
}

const here = fileURLToPath(new URL(".", import.meta.url));
const folder = process.argv[2] ?? join(here, "dist");
await mkdir(folder, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  outdir: join(folder, "assets"),
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome110", "firefox110", "safari16"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  banner: { js: await licences(here) },
  charset: "utf8",
  define: { "process.env.NODE_ENV": '"production"' },
  logLevel: "warning",
});
await copyFile(join(here, "src/index.html"), join(folder, "index.html"));

// A saved page has both files inside itself: neither may end the element that it is put in.
for (const [name, end] of [["assets/app.js", /<\/script|<!--/i], ["assets/app.css", /<\/style/i]]) {
  const text = await readFile(join(folder, name), "utf8");
  if (end.test(text)) throw new Error(`${name} has ${end} in it, and cannot be put into a saved page`);
}
