// Whether the window is narrow: then tables leave out what is least needed, so that their buttons stay in sight.
import { signal } from "@preact/signals";
import type { Column } from "../table";

const narrowWindow = matchMedia("(max-width: 1000px)");
const isNarrow = signal(narrowWindow.matches);
narrowWindow.addEventListener("change", () => (isNarrow.value = narrowWindow.matches));

/** The columns, in a narrow window without some. */
export function fitting<Row>(columns: Column<Row>[], dispensable: string[]): Column<Row>[] {
  return isNarrow.value ? columns.filter((column) => !dispensable.includes(column.name)) : columns;
}
