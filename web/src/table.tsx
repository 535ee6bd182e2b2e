// A table of any length: only the rows on the screen exist. Rows may still be on their way; `need` asks for those that are looked at.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as format from "./format";
import { isPrinting } from "./printing";
import { isMenuKey, isRightClick, MoreButton, openMenu, openMenuAt } from "./menu";
import type { Subject } from "./subject";

export interface Column<Row> {
  name: string;
  title: string;
  /** As in `grid-template-columns`. */
  width: string;
  numeric?: boolean;
  sortable?: boolean;
  hint?: string;
  cell: (row: Row) => ComponentChildren;
}

interface Props<Row> {
  label: string;
  columns: Column<Row>[];
  count: number;
  row: (index: number) => Row | undefined;
  need?: (first: number, last: number) => void;
  sort?: string;
  order?: "asc" | "desc";
  onSort?: (name: string, order: "asc" | "desc") => void;
  selected?: number;
  onSelect?: (index: number, row: Row) => void;
  /** What the menu of a row is about. */
  subject?: (row: Row) => Subject | null;
  rowHeight?: number;
  empty?: ComponentChildren;
  /** Another one starts at the top again. */
  identity?: string;
}

/** The most rows that are printed. */
const MOST_PRINTED = 2000;

/** No browser has elements higher than some ten million pixels. Longer tables scroll in proportion. */
const HIGHEST = 8_000_000;

/** The width that columns need at least. A narrower table scrolls sideways, and its head with it. */
function leastWidth<Row>(columns: Column<Row>[]): string {
  const sum = columns.reduce((all, { width }) => all + Number(/(\d+)px/.exec(width)?.[1] ?? 0), 0);
  return `calc(${sum + 24}px + ${columns.length - 1} * var(--column-gap))`;
}

/** How many rows can be printed: the first ones, up to one that has not been asked for. */
function printedRows<Row>(count: number, row: (index: number) => Row | undefined): number {
  const most = Math.min(count, MOST_PRINTED);
  for (let index = 0; index < most; index += 1) if (row(index) === undefined) return index;
  return most;
}

export function Table<Row>(props: Props<Row>) {
  const { columns, count, rowHeight = 24 } = props;
  const body = useRef<HTMLDivElement>(null);
  const head = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 0 });
  const [active, setActive] = useState(-1);
  const [hovered, setHovered] = useState(-1);
  const selected = props.selected ?? active;

  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setView((now) => ({ ...now, height: entry.contentRect.height })));
    observer.observe(body.current!);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    body.current!.scrollTop = 0;
    setView((now) => ({ ...now, top: 0 }));
    setActive(-1);
    setHovered(-1);
  }, [props.identity]);

  const fullHeight = count * rowHeight;
  const height = Math.min(fullHeight, HIGHEST);
  const stretched = fullHeight > HIGHEST;
  const visible = Math.ceil(view.height / rowHeight) + 1;
  const exact = stretched ? (view.top / Math.max(1, height - view.height)) * Math.max(0, count - visible + 1) : view.top / rowHeight;
  const printed = isPrinting.value ? printedRows(count, props.row) : null;
  const first = printed !== null ? 0 : Math.max(0, Math.min(Math.floor(exact), count - 1));
  const last = printed ?? Math.min(count, first + visible + 1);
  const offset = printed !== null ? 0 : stretched ? view.top - (exact - first) * rowHeight : first * rowHeight;
  useEffect(() => {
    if (printed === null && last > first) props.need?.(first, last);
  });

  const template = columns.map((column) => column.width).join(" ");
  const minWidth = leastWidth(columns);
  const move = (index: number) => {
    const wanted = Math.max(0, Math.min(count - 1, index));
    const row = props.row(wanted);
    setActive(wanted);
    if (row !== undefined) props.onSelect?.(wanted, row);
    const element = body.current!;
    const top = stretched ? (wanted / Math.max(1, count - visible + 1)) * (height - view.height) : wanted * rowHeight;
    if (stretched ? wanted < first || wanted >= last - 2 : top < element.scrollTop) element.scrollTop = top;
    else if (!stretched && top + rowHeight > element.scrollTop + view.height) element.scrollTop = top + rowHeight - view.height;
  };
  const subjectAt = (index: number): Subject | null => {
    const row = index >= 0 && index < count ? props.row(index) : undefined;
    return row === undefined ? null : props.subject?.(row) ?? null;
  };
  const keys = (event: KeyboardEvent) => {
    if (isMenuKey(event) && props.subject) {
      const element = body.current!.querySelector(".table-row.selected");
      if (element) openMenuAt(subjectAt(selected), element);
      event.preventDefault();
      return;
    }
    const page = Math.max(1, visible - 2);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }[event.key];
    if (by !== undefined) move(selected < 0 ? (by > 0 ? first : 0) : selected + by);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(count - 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const indices = Array.from({ length: Math.max(0, last - first) }, (_, index) => first + index);
  const withMore = hovered >= first && hovered < last ? hovered : selected >= first && selected < last ? selected : -1;
  const more = subjectAt(withMore);
  return (
    <div class="table" role="grid" aria-label={props.label} aria-rowcount={count + 1}>
      <div class="table-head" ref={head}><div class="table-columns" role="row" style={{ gridTemplateColumns: template, minWidth }}>
        {columns.map((column) => {
          const sorted = props.sort === column.name;
          const direction = sorted ? (props.order === "asc" ? "ascending" : "descending") : undefined;
          return (
            <div role="columnheader" key={column.name} class={column.numeric ? "numeric" : ""} aria-sort={direction} title={column.hint}>
              {column.sortable && props.onSort
                ? <button type="button" onClick={() => props.onSort!(column.name, sorted && props.order !== "asc" ? "asc" : "desc")}>{column.title}{sorted ? (props.order === "asc" ? " ▲" : " ▼") : ""}</button>
                : column.title}
            </div>
          );
        })}
      </div></div>
      <div class="table-body" role="rowgroup" ref={body} tabIndex={0} aria-label={`${props.label}: rows`} onKeyDown={keys} onPointerLeave={() => setHovered(-1)} onScroll={(event) => { head.current!.scrollLeft = event.currentTarget.scrollLeft; setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight }); }}>
        {count === 0 && <div role="row"><div role="gridcell" class="nothing">{props.empty ?? "Nothing matches."}</div></div>}
        <div style={printed === null ? { height: `${height}px`, position: "relative", minWidth } : {}}>
          <div style={{ transform: `translateY(${offset}px)` }}>
            {indices.map((index) => {
              const row = props.row(index);
              return (
                <div role="row" key={index} aria-rowindex={index + 2} aria-selected={index === selected} class={`table-row${index === selected ? " selected" : ""}`} style={{ gridTemplateColumns: template, height: `${rowHeight}px` }}
                  onClick={() => row !== undefined && move(index)} onPointerEnter={() => setHovered(index)}
                  onContextMenu={props.subject && ((event) => { if (isRightClick(event)) openMenu(subjectAt(index), { x: event.clientX, y: event.clientY }); })}>
                  {row === undefined ? <div role="gridcell" class="later">…</div> : columns.map((column, place) => (
                    <div role="gridcell" key={column.name} class={column.numeric ? "numeric" : ""}>{column.cell(row)}{index === withMore && more && place === columns.length - 1 && <MoreButton subject={more} />}</div>
                  ))}
                </div>
              );
            })}
          </div>
        </div>
        {printed !== null && printed < count && <p class="nothing">{format.count(count - printed)} more rows are not printed.</p>}
      </div>
    </div>
  );
}
