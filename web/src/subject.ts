// What a row, a frame or a block is about: what its menu's actions are built from.
import type { Frame, Row } from "./answers";
import type { Grouping } from "./choice";
import { nameOf } from "./stack";

export interface Subject {
  /** What it is called, whole. */
  name: string;
  function?: string | null;
  site?: number | null;
  stack?: Frame[];
  frame?: Frame | null;
  /** The filter that keeps only this, where it is neither a site nor a function: `type:Order`. */
  filter?: string | null;
  /** What can be done with it alone. */
  actions?: { name: string; key?: string; run: () => void }[];
  /** There are no other actions: it is no part of the recording, but of the page. */
  isOwn?: boolean;
}

/** A site, or a row with a stack. */
export function subjectOfSite(row: Pick<Row, "key" | "frame" | "stack"> & { id?: number | null }): Subject {
  const name = nameOf(row.frame) ?? row.key;
  return { name, function: name, site: row.id, stack: row.stack, frame: row.frame };
}

/** A row of a grouping. */
export function subjectOfRow(row: Row, by: Grouping): Subject {
  if (by === "site") return subjectOfSite(row);
  if (by === "function") return { name: row.key, function: nameOf(row.frame) ?? row.key, frame: row.frame };
  return { name: row.key, frame: row.frame, filter: filterOfRow(row, by) };
}

/** The filter that keeps only a row of a grouping, if there is one. */
export function filterOfRow(row: Pick<Row, "key" | "id">, by: Grouping): string | null {
  if (by === "thread") return row.id === null ? null : `thread:${row.id}`;
  return by === "site" || by === "function" ? null : `${by}:${row.key}`;
}

/** The narrowest filter that keeps a subject. */
export function filterOf({ filter, site, function: name }: Subject): string | null {
  if (filter) return filter;
  if (site !== null && site !== undefined) return `site:${site}`;
  return name ? `inside:equal:${name}` : null;
}

/** Which memory a filter of a row keeps, where that is more than the row itself: a row of functions has what they allocate themselves. */
export function keptBy(filter: string, by: string): string {
  if (filter.startsWith("inside:")) return "all that is allocated inside this function, by its callees too";
  if (filter.startsWith("module:")) return "all whose stack has a frame of this module";
  if (filter.startsWith("file:") || filter.startsWith("line:")) return `all whose stack has a frame ${filter.startsWith("file:") ? "in this file" : "at this line"}`;
  return `only this ${by}`;
}

/** A stack as text, a frame a line, innermost first. */
export function stackText(stack: Frame[]): string {
  return stack.map((frame) => {
    const place = frame.file ? `${frame.file}${frame.line ? `:${frame.line}` : ""}` : frame.module ?? "";
    return `${nameOf(frame) ?? frame.address ?? "?"}${place ? `  ${place}` : ""}`;
  }).join("\n");
}
