// Draws cells of pages: as wide as their part in RAM, filled from below as far as live blocks fill them, in the colour of the site that pins them.
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
    context.fillStyle = pale;
    context.fillRect(x, y, wide, inner);
    const filled = cell.owner === "site" || cell.owner === "several" ? inner * Math.min(1, cell.fullness) : inner;
    context.fillStyle = strong;
    context.fillRect(x, y + inner - filled, wide, filled);
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
