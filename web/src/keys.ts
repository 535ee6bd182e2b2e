// Keys that work everywhere. Those of a part of the page are with that part.
import { offeredViews } from "./views/list";
import { choice, choose } from "./choice";
import { helpShown } from "./help";
import { source } from "./sources";
import { dark, safe } from "./theme";
import { instantOf, showRange, zoom } from "./timeline/range";

export function listenForKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target as HTMLElement;
    if (target.matches("input, select, textarea")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    if (press(event.key)) event.preventDefault();
  });
}

function press(key: string): boolean {
  const { from, to, at, b, pick, source_file } = choice.value;
  const duration = source.value?.duration_ns ?? 0;
  if (/^[1-9]$/.test(key)) {
    const view = offeredViews()[Number(key) - 1];
    if (view) choose({ view });
    return true;
  }
  switch (key) {
    case "Escape": choose(source_file ? { source_file: "" } : { pick: "" }); return source_file !== "" || pick !== "";
    case "s": {
      const link = document.querySelector<HTMLElement>(".picked .source-link[data-own]") ?? document.querySelector<HTMLElement>(".picked .source-link");
      link?.click();
      return link !== null;
    }
    case "?": helpShown.value = true; return true;
    case "/": {
      const field = document.querySelector<HTMLInputElement>("input[type=search]");
      field?.focus();
      field?.select();
      return field !== null;
    }
    case "+": document.getElementById("add-filter")?.click(); return true;
    case "l": document.getElementById("copy-link")?.click(); return true;
    case "d": choose({ theme: dark.value ? "light" : "dark" }); return true;
    case "c": choose({ palette: safe.value ? "" : "safe" }); return true;
    case "z": if (from !== null || to !== null) showRange(from ?? 0, to ?? duration, true); return true;
    case "x": choose({ from: null, to: null }); return true;
    case "p": choose({ at: "peak" }); return true;
    case "r": if (source.value?.rss_peak) choose({ at: "rss-peak" }); return true;
    case "e": choose({ at: "end" }); return true;
    case "b": choose(b === null ? { b: instantOf(at, to ?? duration) ?? "peak", other: choice.value.source } : { b: null }); return true;
    case "[": zoom(1 / 0.7, null, false); return true;
    case "]": zoom(0.7, null, false); return true;
    default: return false;
  }
}
