// Builds the page: dist/index.html, dist/assets/app.js, dist/assets/app.css. The same sources and locked dependencies give the same bytes.
//
//     node build.mjs [FOLDER]      into FOLDER instead of dist/
import { build } from "esbuild";
import { copyFile, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

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
