// Draws cells of pages, each as wide as its part in RAM: free pages, pages of its main owner, and others. Pages with live blocks are filled from below as far as these fill them.
import type { RssCell, RssMap } from "../answers";
import { rankColour, type Colours } from "../theme";
import { pagesOf, type Grid } from "./pages";

/** Sites have the colour of their rank in the picture of all pages, at every zoom. */
export type Ranks = Map<number, number>;

export function ranksOf(map: RssMap): Ranks {
  return new Map(map.sites.map((site, index) => [site.id, index]));
}

/** A strong colour, and a pale one of its kind. */
export function colourOf(map: RssMap, cell: RssCell, ranks: Ranks, theme: Colours): [string, string] {
  switch (cell.owner) {
    case "site": return rankColour(ranks.get(map.sites[cell.site ?? -1]?.id ?? -1) ?? -1);
    case "several": return [theme.several, theme.severalPale];
    case "free": return [theme.free, theme.free];
    case "allocator": return [theme.allocator, theme.allocator];
    default: return [theme.line, theme.line];
  }
}

/** The part of its pages that live blocks fill, free ones not counted. Those of the allocator are full: it says nothing about them. */
function fullnessOf(map: RssMap, cell: RssCell): number {
  if (cell.owner === "allocator") return 1;
  return Math.min(1, cell.live_bytes / Math.max(1, (cell.resident_pages - cell.free_pages) * map.page_bytes));
}

/** `picked`: the site whose cells stand out; −1 for none. */
export function drawCells(context: CanvasRenderingContext2D, map: RssMap, grid: Grid, ranks: Ranks, picked: number, theme: Colours): void {
  const inner = grid.size - 1;
  map.cells.forEach((cell, index) => {
    const x = (index % grid.columns) * grid.size;
    const y = Math.floor(index / grid.columns) * grid.size;
    const part = cell.resident_pages / Math.max(1, pagesOf(map, index));
    if (part === 0) {
      context.fillStyle = theme.line;
      context.fillRect(x + inner / 2 - 1, y + inner / 2 - 1, 2, 2);
      return;
    }
    const isOther = picked >= 0 && map.sites[cell.site ?? -1]?.id !== picked;
    const [strong, pale] = colourOf(map, cell, ranks, theme);
    context.globalAlpha = isOther ? 0.25 : 1;
    const wide = Math.max(2, inner * part);
    const ofPages = (pages: number) => wide * (pages / cell.resident_pages);
    const [ofOwner, ofFree] = [ofPages(cell.owner === "free" ? 0 : cell.owner_pages), ofPages(cell.free_pages)];
    context.fillStyle = theme.severalPale;
    context.fillRect(x, y, wide, inner);
    context.fillStyle = pale;
    context.fillRect(x, y, ofOwner, inner);
    const filled = inner * fullnessOf(map, cell);
    context.fillStyle = theme.several;
    context.fillRect(x, y + inner - filled, wide - ofFree, filled);
    context.fillStyle = strong;
    context.fillRect(x, y + inner - filled, ofOwner, filled);
    context.fillStyle = theme.free;
    context.fillRect(x + wide - ofFree, y, ofFree, inner);
    context.globalAlpha = 1;
  });
  context.fillStyle = theme.ink;
  for (const area of map.areas) {
    const index = Math.floor((area.first_page - map.from) / map.cell_pages);
    if (area.first_page < map.from || index >= map.cells.length) continue;
    context.fillRect((index % grid.columns) * grid.size - 1, Math.floor(index / grid.columns) * grid.size - 1, 2, grid.size);
  }
}

/** All pages in one strip. */
export function drawStrip(context: CanvasRenderingContext2D, map: RssMap, width: number, height: number, ranks: Ranks, theme: Colours): void {
  const step = width / Math.max(1, map.pages / map.cell_pages);
  map.cells.forEach((cell, index) => {
    if (cell.resident_pages === 0) return;
    context.fillStyle = colourOf(map, cell, ranks, theme)[0];
    context.fillRect(index * step, 0, Math.max(0.7, step), height);
  });
}
