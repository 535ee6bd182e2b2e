// Which pages of the heap the picture shows, and where its cells are. Pages are counted through all heaps, one after the other.
import type { RssArea, RssCell, RssMap } from "../answers";

export interface PageRange {
  from: number;
  to: number;
}

/** The fewest pages that fill the picture. */
const LEAST_PAGES = 16;

/** "128-512", as the address of the page has it; null for all pages. */
export function rangeOf(text: string): PageRange | null {
  const match = /^(\d{1,12})-(\d{1,12})$/.exec(text);
  if (!match) return null;
  const [from, to] = [Number(match[1]), Number(match[2])];
  return from < to ? { from, to } : null;
}

/** A range within all pages, as the address has it; empty for all of them. */
export function textOf(from: number, to: number, pages: number): string {
  const span = Math.min(pages, Math.max(LEAST_PAGES, Math.round(to - from)));
  const first = Math.round(Math.min(Math.max(0, from), pages - span));
  return span >= pages ? "" : `${first}-${first + span}`;
}

/** The part of a picture in a range: a saved page has only the picture of all pages. */
export function cut(map: RssMap, { from, to }: PageRange): RssMap {
  const first = Math.floor(from / map.cell_pages);
  const last = Math.min(map.cells.length, Math.ceil(to / map.cell_pages));
  return { ...map, from: first * map.cell_pages, to: Math.min(map.pages, last * map.cell_pages), cells: map.cells.slice(first, last) };
}

export interface Grid {
  columns: number;
  rows: number;
  /** The width and height of a cell. */
  size: number;
}

const SMALLEST = 8;
const LARGEST = 30;

/** How many cells there is room for. */
export function roomFor(width: number, height: number): number {
  return Math.max(1, Math.floor(width / SMALLEST)) * Math.max(1, Math.floor(height / SMALLEST));
}

/** The largest cells that all fit. */
export function gridOf(cells: number, width: number, height: number): Grid {
  for (let size = LARGEST; size > SMALLEST; size -= 1) {
    const columns = Math.floor(width / size);
    if (columns * Math.floor(height / size) >= cells) return { columns, rows: Math.ceil(cells / columns), size };
  }
  const columns = Math.max(1, Math.floor(width / SMALLEST));
  return { columns, rows: Math.ceil(cells / columns), size: SMALLEST };
}

/** The pages of a cell: the last one may have fewer. */
export function pagesOf(map: RssMap, index: number): number {
  return Math.min(map.cell_pages, map.to - map.from - index * map.cell_pages);
}

const AREAS: { [kind: string]: string } = { main: "main heap", arena: "arena", allocator: "allocator" };

/** What an area is called; those of a kind are numbered. */
export function namesOf(areas: RssArea[]): string[] {
  const counted: { [kind: string]: number } = {};
  return areas.map(({ kind }) => {
    counted[kind] = (counted[kind] ?? 0) + 1;
    return kind === "main" ? AREAS.main : `${AREAS[kind] ?? kind} ${counted[kind]}`;
  });
}

/** The index of the area that a page is in, or −1. */
export function areaOf(areas: RssArea[], page: number): number {
  return areas.findLastIndex((area) => area.first_page <= page && page < area.first_page + area.pages);
}

export function hex(address: number): string {
  return `0x${address.toString(16)}`;
}

/** Who keeps a cell in RAM, for people. */
export function ownerOf(map: RssMap, cell: RssCell): string {
  switch (cell.owner) {
    case "site": return map.sites[cell.site ?? -1]?.key ?? "a site";
    case "several": return "several sites";
    case "free": return "free: could be returned to the kernel";
    case "allocator": return "the allocator's own data";
    default: return "not in RAM";
  }
}
