// A picture of the heap's address space: pages by how full they are, coloured by the site that pins them.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RssMap } from "../answers";
import { useAnswer } from "../answer";
import { choice, choose } from "../choice";
import * as format from "../format";
import { clean, shown } from "../names";
import { saved } from "../saved";
import { StatusLine } from "../status";
import { colours } from "../theme";
import { colourOf, drawCells, ranksOf, type Ranks } from "./draw";
import { areaOf, cut, gridOf, hex, namesOf, ownerOf, pagesOf, rangeOf, roomFor, textOf } from "./pages";
import { rssQuestion } from "./question";
import { Strip } from "./strip";

/** Cells of the picture of all pages. */
const STRIP_CELLS = 1024;

export function HeapMap() {
  const frame = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setSize({ width: Math.floor(entry.contentRect.width), height: Math.floor(entry.contentRect.height) }));
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  const range = rangeOf(choice.value.node);
  const room = Math.ceil(roomFor(size.width, size.height) / 64) * 64;
  const whole = useAnswer<RssMap>(rssQuestion("rss/map", { cells: STRIP_CELLS }));
  const part = useAnswer<RssMap>(size.width === 0 ? null : rssQuestion("rss/map", saved ? { cells: STRIP_CELLS } : { first: range?.from ?? null, end: range?.to ?? null, cells: room }), 60);
  const ranks = useMemo(() => (whole.data ? ranksOf(whole.data) : new Map<number, number>()), [whole.data]);
  const map = useMemo(() => (saved && part.data && range ? cut(part.data, range) : part.data), [part.data, choice.value.node]);
  return (
    <div class={`heap-map${part.isOld ? " old" : ""}`}>
      {whole.data && whole.data.pages > 0 && <Strip map={whole.data} range={range ?? { from: 0, to: whole.data.pages }} ranks={ranks} />}
      <div class="heap-map-frame" ref={frame}>
        {map && map.pages > 0 && size.width > 0 && <Cells map={map} ranks={ranks} width={size.width} height={size.height} />}
        {map && map.pages === 0 && <p class="nothing">No heap is known at this instant.</p>}
      </div>
      {map && map.pages > 0 && <Legend map={map} ranks={ranks} />}
      {/* It takes no room: another height would ask for other cells, and that would show it again. */}
      <StatusLine answer={part} />
    </div>
  );
}

function zoomTo(map: RssMap, from: number, to: number, step: boolean): void {
  choose({ node: textOf(from, to, map.pages) }, step);
}

/** By how much Enter and a double click zoom in. */
const CLOSER = 8;

function Cells({ map, ranks, width, height }: { map: RssMap; ranks: Ranks; width: number; height: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hovered, setHovered] = useState<{ index: number; x: number; y: number } | null>(null);
  const [active, setActive] = useState(-1);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const theme = colours.value;
  const picked = /^\d+$/.test(choice.value.pick) ? Number(choice.value.pick) : -1;
  const count = map.cells.length;
  const grid = useMemo(() => gridOf(count, width, height), [count, width, height]);
  const span = map.to - map.from;
  const pageOf = (index: number) => map.from + index * map.cell_pages;

  useLayoutEffect(() => {
    const element = canvas.current!;
    const context = element.getContext("2d");
    if (!context) return;
    const ratio = devicePixelRatio || 1;
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawCells(context, map, grid, ranks, picked, theme);
  }, [map, grid, ranks, picked, theme, width, height]);

  const find = (event: MouseEvent): number => {
    const box = canvas.current!.getBoundingClientRect();
    const [column, row] = [Math.floor((event.clientX - box.left) / grid.size), Math.floor((event.clientY - box.top) / grid.size)];
    const index = row * grid.columns + column;
    return column >= 0 && column < grid.columns && index >= 0 && index < count ? index : -1;
  };
  const zoom = (factor: number, around: number, step: boolean) => {
    const page = around < 0 ? map.from + span / 2 : pageOf(around) + map.cell_pages / 2;
    const long = span * factor;
    zoomTo(map, page - ((page - map.from) / span) * long, page + ((map.to - page) / span) * long, step);
  };
  const move = (by: number) => zoomTo(map, map.from + by, map.to + by, false);

  const latest = useRef({ zoom, move, find });
  latest.current = { zoom, move, find };
  useLayoutEffect(() => {
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      const amount = Math.max(-240, Math.min(240, (event.deltaY || event.deltaX) * (event.deltaMode === 1 ? 16 : 1)));
      if (event.shiftKey) latest.current.move((amount / 1000) * span);
      else latest.current.zoom(Math.exp(amount * 0.0025), latest.current.find(event), false);
    };
    const element = canvas.current!;
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, [span]);

  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid.columns, ArrowDown: grid.columns }[event.key];
    if (by !== undefined) setActive((now) => (now < 0 ? 0 : Math.max(0, Math.min(count - 1, now + by))));
    else if (event.key === "Enter" || event.key === "+" || event.key === "=") zoom(1 / CLOSER, active, true);
    else if (event.key === "-") zoom(CLOSER, active, true);
    else if (event.key === "Escape" && choice.value.node !== "") choose({ node: "" });
    else if (event.key === "PageDown") move(span * 0.8);
    else if (event.key === "PageUp") move(span * -0.8);
    else if (event.key === "Home") setActive(0);
    else if (event.key === "End") setActive(count - 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
    // What is explained is what the keys walk to, wherever the pointer rests.
    setHovered(null);
  };

  const grab = (event: PointerEvent) => {
    const index = find(event);
    if (event.button !== 0 || index < 0) return;
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
    setDrag({ from: index, to: index });
  };
  const drop = () => {
    if (!drag) return;
    const [first, last] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    if (last > first) zoomTo(map, pageOf(first), pageOf(last + 1), true);
    else setActive(first);
    setDrag(null);
  };
  const follow = (event: PointerEvent) => {
    const index = find(event);
    setHovered(index < 0 ? null : { index, x: event.clientX, y: event.clientY });
    if (drag && index >= 0) setDrag({ ...drag, to: index });
  };

  const isActive = active >= 0 && active < count;
  const index = hovered && hovered.index < count ? hovered.index : isActive ? active : -1;
  const cursor = (at: number, name: string) => <i class={`cell-cursor ${name}`} style={{ transform: `translate(${(at % grid.columns) * grid.size - 1}px, ${Math.floor(at / grid.columns) * grid.size - 1}px)`, width: `${grid.size + 1}px`, height: `${grid.size + 1}px` }} />;
  return (
    <>
      <canvas ref={canvas} class="cells" tabIndex={0} role="application" aria-label="Pages of the heap: arrows walk, Enter zooms in, minus zooms out, Escape shows all" aria-describedby="heap-map-details" style={{ width: `${width}px`, height: `${height}px` }}
        onKeyDown={keys} onPointerDown={grab} onPointerMove={follow} onPointerUp={drop} onPointerCancel={() => setDrag(null)} onPointerLeave={() => setHovered(null)} onDblClick={(event) => zoom(1 / CLOSER, find(event), true)} />
      {drag && drag.from !== drag.to && [drag.from, drag.to].map((each) => cursor(each, "dragged"))}
      {hovered && hovered.index < count && cursor(hovered.index, "")}
      {isActive && cursor(active, "active")}
      {hovered && hovered.index < count && <div class="tip" style={tipPlace(hovered)}>{linesOf(map, hovered.index, pageOf(hovered.index)).map((line) => <span key={line}>{line}</span>)}</div>}
      <p class="visually-hidden" id="heap-map-details" aria-live="polite">{index >= 0 ? linesOf(map, index, pageOf(index)).join(", ") : ""}</p>
    </>
  );
}

/** What a cell is: its addresses, how full it is, and who keeps it. */
function linesOf(map: RssMap, index: number, page: number): string[] {
  const cell = map.cells[index];
  const pages = pagesOf(map, index);
  const area = areaOf(map.areas, page);
  const where = `${hex(cell.address)}, ${format.bytes(pages * map.page_bytes)}${area >= 0 ? `, ${namesOf(map.areas)[area]}` : ""}`;
  if (cell.resident_pages === 0) return [where, ownerOf(map, cell)];
  const resident = pages > 1 ? `${format.count(cell.resident_pages)} of ${format.plural(pages, "page")} in RAM, ` : "";
  const owner = cell.owner === "site" ? `pinned by ${shown(ownerOf(map, cell))}` : ownerOf(map, cell);
  const part = pages > 1 && cell.owner_pages < cell.resident_pages ? ` (${format.plural(cell.owner_pages, "page")})` : "";
  const free = cell.owner !== "free" && cell.free_pages > 0 ? [`${format.plural(cell.free_pages, "page")} free`] : [];
  return [where, `${resident}${format.percent(cell.fullness)} full: ${format.bytes(cell.live_bytes)} of live blocks`, owner + part, ...free];
}

function tipPlace({ x, y }: { x: number; y: number }) {
  const horizontally = x > innerWidth / 2 ? { right: `${innerWidth - x + 10}px` } : { left: `${x + 12}px` };
  return { ...horizontally, ...(y > innerHeight * 0.7 ? { bottom: `${innerHeight - y + 12}px` } : { top: `${y + 16}px` }) };
}

const OWNERS: { owner: string; title: string; hint: string }[] = [
  { owner: "several", title: "several sites", hint: "Blocks of several sites are on the page" },
  { owner: "free", title: "free", hint: "Nothing is on the page: it could be returned to the kernel" },
  { owner: "allocator", title: "allocator", hint: "The allocator's own data, and caches of threads" },
  { owner: "absent", title: "not in RAM", hint: "Address space of the heap that is not resident" },
];
/** The most sites that the legend has. */
const MOST_SITES = 7;

function Legend({ map, ranks }: { map: RssMap; ranks: Ranks }) {
  const theme = colours.value;
  const { pick, node } = choice.value;
  const swatch = (owner: string, site: number | null) => {
    const [strong, pale] = colourOf(map, { address: 0, resident_pages: 1, live_bytes: 0, fullness: 0, owner, owner_pages: 1, free_pages: 0, site }, ranks, theme);
    return <i style={{ background: `linear-gradient(to top, ${strong} 55%, ${pale} 55%)` }} />;
  };
  return (
    <div class="heap-map-legend">
      {map.sites.slice(0, MOST_SITES).map((site, index) => (
        <button type="button" key={site.id} aria-pressed={pick === String(site.id)} title={`${clean(site.key)} pins ${format.bytes(site.pinned_bytes)} of pages. Click: only its pages stand out`} onClick={() => choose({ pick: pick === String(site.id) ? "" : String(site.id) })}>
          {swatch("site", index)} <span class="name">{shown(site.key)}</span> {format.bytes(site.pinned_bytes)}
        </button>
      ))}
      {map.sites.length > MOST_SITES && <small>{format.plural(map.sites.length - MOST_SITES, "more site", "more sites")}</small>}
      {OWNERS.map(({ owner, title, hint }) => <span key={owner} title={hint}>{swatch(owner, null)} {title}</span>)}
      <span class="stretch" />
      <small>{scaleOf(map)}</small>
      {node && <button type="button" onClick={() => choose({ node: "" })} title="Esc">All pages</button>}
    </div>
  );
}

/** "a cell is 4 pages; filled from below as far as live blocks fill it". */
function scaleOf(map: RssMap): string {
  return `a cell is ${format.plural(map.cell_pages, "page")}, filled as far as live blocks fill it`;
}
