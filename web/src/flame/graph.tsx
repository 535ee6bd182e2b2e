// A flame graph on a canvas: one tree, or two that share their root (callers above a function, callees below).
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Tree } from "../answers";
import * as format from "../format";
import { matcherOf } from "../matcher";
import { isMenuKey, isRightClick, MoreButton, openMenu, openMenuAt } from "../menu";
import { changedForms, clean, shown } from "../names";
import { saveFile } from "../download";
import type { Frame } from "../answers";
import type { Subject } from "../subject";
import { svgOf } from "./svg";
import { changeColour, colours, dark, functionColour, safe } from "../theme";
import { draw, ROW, type Picture } from "./draw";
import { childOf, isAncestor, layOut, matchedWidth, nodeAt, nodeOf, pathOf, sameNode, widthsOfChange, type Layout } from "./layout";

export interface Part {
  tree: Tree;
  upwards: boolean;
}

export interface Node {
  tree: Tree;
  layout: Layout;
  node: number;
  name: string;
  isRoot: boolean;
}

interface Props {
  parts: Part[];
  blocks: boolean;
  compared?: boolean;
  /** Whether the tree goes from the allocation to the start: callers are below. */
  inverted?: boolean;
  /** Nodes are lines of functions. */
  lines?: boolean;
  /** Which part and node fill the width: "1:0.2". */
  zoomed: string;
  onZoom: (path: string) => void;
  search: string;
  label: string;
  tip: (node: Node) => ComponentChildren;
  /** What the bar says about the selected or hovered node, and what can be done with it. */
  details: (node: Node | null, matched: number | null) => ComponentChildren;
  /** Filled with what the tools above the graph can do with it. */
  control?: { current: FlameControl | null };
  /** The place among all matches has changed. */
  onMatch?: (place: number, count: number) => void;
  /** What an SVG is called. */
  title?: string;
  onKey?: (key: string, node: Node) => boolean;
}

export interface FlameControl {
  /** Selects the next match of the search, or the previous one. */
  step: (back: boolean) => void;
  /** Saves what is shown as an SVG. */
  saveSvg: () => void;
}

/** What the menu of a frame is about: its function, and the calls that lead to it, innermost first. */
export function subjectOfNode({ tree, layout, node, name, isRoot }: Node, isInverted: boolean): Subject {
  const stack: Frame[] = [];
  for (let at = node; at > 0 && layout.parent[at] >= 0; at = layout.parent[at]) {
    stack.push({ function: tree.names[tree.node_name[at]], file: tree.files[tree.node_file[at]] || undefined, line: tree.node_line[at] || undefined } as Frame);
  }
  if (isInverted) stack.reverse();
  return { name, function: isRoot ? null : name, stack, frame: stack[isInverted ? stack.length - 1 : 0] ?? null };
}

interface Drawn extends Part {
  layout: Layout;
  /** The whole names, which are searched. */
  names: string[];
  /** The names that are drawn. */
  labels: string[];
  colours: (string | undefined)[];
  /** Nodes that are calls of a library, below the line that makes them. */
  libraryCalls: Set<number>;
}

const NAMELESS = /^(\{|<lambda|<anonymous|\(anonymous)/;
const NONE = { part: -1, node: -1 };
/** The width in pixels below which a match that is stepped to is zoomed to. */
const LEAST_MATCH = 4;

function named(part: Drawn) {
  return { layout: part.layout, nameOf: (node: number) => part.names[part.tree.node_name[node]] };
}

export function FlameGraph(props: Props) {
  const { parts, blocks, compared } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [hovered, setHovered] = useState(NONE);
  const [selected, setSelected] = useState(NONE);
  const [pointer, setPointer] = useState({ x: 0, y: 0 });
  // The frame that was hovered last: the bar below keeps it, so that its buttons can be reached.
  const [lastHovered, setLastHovered] = useState(NONE);
  const theme = colours.value;
  const palette = `${dark.value} ${safe.value}`;

  const drawn = useMemo<Drawn[]>(() => parts.map((part) => {
    const widths = compared ? widthsOfChange(part.tree) : blocks ? part.tree.node_blocks : part.tree.node_value;
    return { ...part, layout: layOut(part.tree, widths), names: part.tree.names.map(clean), labels: part.tree.names.map(shown), colours: [], libraryCalls: new Set(part.tree.library_calls) };
  }), [parts, blocks, compared, changedForms.value]);
  useMemo(() => drawn.forEach((part) => (part.colours = [])), [palette]);

  const matcher = useMemo(() => matcherOf(props.search).matches, [props.search]);
  const found = useMemo(() => drawn.map((part) => (matcher ? part.names.map(matcher) : null)), [drawn, matcher]);
  const matched = useMemo(() => {
    const part = drawn[drawn.length - 1];
    const flags = found[found.length - 1];
    return part && flags && part.layout.total ? matchedWidth(part.layout, (node) => flags[part.tree.node_name[node]]) / part.layout.total : null;
  }, [drawn, found]);

  const [zoomedPart, zoomedNode] = useMemo(() => {
    const [index, path] = props.zoomed.includes(":") ? props.zoomed.split(":") : ["0", props.zoomed];
    const part = Math.min(drawn.length - 1, Number(index) || 0);
    return [part, part >= 0 ? nodeOf(drawn[part].layout, path ?? "") : 0];
  }, [props.zoomed, drawn]);

  // What fills the width of each part; it glides to where it is wanted.
  const ranges = useRef<{ left: number; right: number }[]>([]);
  const wanted = drawn.map((part, index) => {
    const { start, width, size: nodes } = part.layout;
    return index === zoomedPart && nodes ? { left: start[zoomedNode], right: start[zoomedNode] + width[zoomedNode] } : { left: 0, right: part.layout.total };
  });

  const rowsAbove = drawn.filter((part) => part.upwards).reduce((sum, part) => sum + part.layout.rows, 0) - (drawn.length > 1 ? 1 : 0);
  const rowsBelow = drawn.filter((part) => !part.upwards).reduce((sum, part) => sum + part.layout.rows, 0);
  const rows = Math.max(0, rowsAbove) + rowsBelow;
  const contentHeight = Math.max(rows * ROW + 4, size.height);
  const rootTop = (part: Drawn): number => {
    if (drawn.length > 1) return Math.max(0, rowsAbove) * ROW;
    return part.upwards ? contentHeight - ROW - 2 : 0;
  };

  const pictures = (scrolled: number): Picture[] => drawn.map((part, index) => {
    const flags = found[index];
    const { tree } = part;
    return {
      layout: part.layout, upwards: part.upwards, skip: part.upwards && drawn.length > 1 ? 1 : 0, top: rootTop(part) - scrolled,
      left: ranges.current[index].left, right: ranges.current[index].right,
      label: (node) => labelOf(part, node, props.lines ?? false),
      colour: compared
        ? (node) => changeColour((tree.node_after![node] - tree.node_before![node]) / Math.max(1, tree.node_after![node], tree.node_before![node]))
        : (node) => node === 0 && part.layout.parent[0] < 0 ? theme.line : (part.colours[tree.node_name[node]] ??= functionColour(tree.names[tree.node_name[node]] ?? "", tree.files[tree.node_file[node]] ?? "")),
      matches: flags ? (node) => flags[tree.node_name[node]] : null,
      zoomed: index === zoomedPart ? zoomedNode : 0,
      hovered: hovered.part === index ? hovered.node : -1,
      selected: selected.part === index ? selected.node : -1,
    };
  });
  const paint = () => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || size.width === 0) return;
    const ratio = devicePixelRatio || 1;
    if (element.width !== Math.round(size.width * ratio) || element.height !== Math.round(size.height * ratio)) {
      element.width = Math.round(size.width * ratio);
      element.height = Math.round(size.height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    const scrolled = scroller.current?.scrollTop ?? 0;
    for (const picture of pictures(scrolled)) draw(context, picture, size.width, size.height, theme);
  };
  const paintLatest = useRef(paint);
  paintLatest.current = paint;

  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setSize({ width: Math.floor(entry.contentRect.width), height: Math.floor(entry.contentRect.height) }));
    observer.observe(scroller.current!);
    return () => observer.disconnect();
  }, []);

  // Of a file that grows, or with another metric: what is selected stays so, and where it is.
  const before = useRef<Drawn[]>([]);
  useLayoutEffect(() => {
    const old = before.current;
    before.current = drawn;
    setHovered(NONE);
    setLastHovered(NONE);
    const isAlike = old.length === drawn.length && old.every((part, index) => part.upwards === drawn[index].upwards);
    setSelected(({ part, node }) => (isAlike && node >= 0 ? { part, node: sameNode(named(old[part]), node, named(drawn[part])) } : NONE));
    ranges.current = wanted.map((each) => ({ ...each }));
    const element = scroller.current!;
    if (isAlike && drawn.length === 1 && !drawn[0].upwards) return;
    element.scrollTop = drawn.length === 1 && drawn[0].upwards ? element.scrollHeight : drawn.length > 1 ? Math.max(0, rowsAbove * ROW - element.clientHeight / 2) : 0;
  }, [drawn]);

  useEffect(() => {
    const began = performance.now();
    const from = ranges.current.map((each) => ({ ...each }));
    const takes = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 140;
    let request = 0;
    const glide = (now: number) => {
      const part = takes === 0 ? 1 : Math.min(1, Math.max(0, (now - began) / takes));
      const eased = 1 - (1 - part) ** 3;
      wanted.forEach((goal, index) => {
        const start = from[index] ?? goal;
        ranges.current[index] = part === 1 ? { ...goal } : { left: start.left + (goal.left - start.left) * eased, right: start.right + (goal.right - start.right) * eased };
      });
      paintLatest.current();
      if (part < 1) request = requestAnimationFrame(glide);
    };
    request = requestAnimationFrame(glide);
    return () => cancelAnimationFrame(request);
  }, [drawn, zoomedPart, zoomedNode]);

  useLayoutEffect(() => paint());

  const find = (clientX: number, clientY: number) => {
    const box = canvas.current!.getBoundingClientRect();
    const x = clientX - box.left;
    const y = clientY - box.top + (scroller.current?.scrollTop ?? 0);
    for (const [index, part] of drawn.entries()) {
      const top = rootTop(part);
      const row = part.upwards ? Math.floor((top + ROW - y) / ROW) : Math.floor((y - top) / ROW);
      if (row < (part.upwards && drawn.length > 1 ? 1 : 0)) continue;
      const { left, right } = ranges.current[index];
      const node = nodeAt(part.layout, row, left + (x / size.width) * (right - left));
      if (node >= 0) return { part: index, node };
    }
    return NONE;
  };

  const nodeFor = (where: { part: number; node: number }): Node | null => {
    const part = drawn[where.part];
    if (!part || where.node < 0 || where.node >= part.layout.size) return null;
    return { tree: part.tree, layout: part.layout, node: where.node, name: part.tree.names[part.tree.node_name[where.node]] ?? "?", isRoot: where.node === 0 };
  };
  const zoomTo = (where: { part: number; node: number }) => {
    const part = drawn[where.part];
    if (!part) return;
    const path = pathOf(part.layout, where.node);
    props.onZoom(path === "" ? "" : where.part === 0 ? path : `${where.part}:${path}`);
  };

  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const now = selected.node >= 0 ? selected : { part: zoomedPart, node: zoomedNode };
    const part = drawn[now.part];
    if (!part) return;
    if (isMenuKey(event)) {
      openMenuAt(menuOf(now), document.getElementById("flame-details") ?? canvas.current!);
      event.preventDefault();
      return;
    }
    const { layout } = part;
    const towardsLeaves = part.upwards ? "ArrowUp" : "ArrowDown";
    const towardsRoot = part.upwards ? "ArrowDown" : "ArrowUp";
    let next = -1;
    if (selected.node < 0 && event.key.startsWith("Arrow")) next = now.node;
    else if (event.key === towardsLeaves) next = childOf(layout, now.node, 0);
    else if (event.key === towardsRoot) {
      next = layout.parent[now.node];
      // From the shared root on into the other part.
      if (next < 0 && drawn.length > 1) {
        const opposite = 1 - now.part;
        const child = childOf(drawn[opposite].layout, 0, 0);
        if (child >= 0) setSelected({ part: opposite, node: child });
        event.preventDefault();
        return;
      }
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const above = layout.parent[now.node];
      next = above < 0 ? -1 : childOf(layout, above, layout.ordinal[now.node] + (event.key === "ArrowRight" ? 1 : -1));
    } else if (event.key === "Enter" || event.key === " ") {
      if (selected.node >= 0) zoomTo(selected);
      event.preventDefault();
      return;
    } else if (event.key === "Escape") {
      if (props.zoomed) {
        const above = drawn[zoomedPart].layout.parent[zoomedNode];
        zoomTo({ part: zoomedPart, node: Math.max(0, above) });
      } else setSelected(NONE);
      event.preventDefault();
      return;
    } else {
      const node = nodeFor(now);
      if (node && props.onKey?.(event.key, node)) event.preventDefault();
      return;
    }
    event.preventDefault();
    if (next < 0) return;
    setSelected({ part: now.part, node: next });
    keepVisible(part, layout.depth[next]);
  };

  const keepVisible = (part: Drawn, depth: number) => {
    const element = scroller.current!;
    const y = part.upwards ? rootTop(part) - depth * ROW : rootTop(part) + depth * ROW;
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + ROW > element.scrollTop + element.clientHeight) element.scrollTop = y + ROW - element.clientHeight;
  };

  const whereShown = selected.node >= 0 ? selected : hovered.node >= 0 ? hovered : lastHovered;
  const shownNode = nodeFor(whereShown);
  const isInverted = props.inverted ?? false;
  const menuOf = (where: { part: number; node: number }): Subject | null => {
    const node = nodeFor(where);
    // Of a focused graph, the shared root is the function itself.
    return node && (!node.isRoot || drawn.length > 1) ? subjectOfNode({ ...node, isRoot: node.isRoot && drawn.length < 2 }, drawn.length > 1 ? drawn[where.part].upwards : isInverted) : null;
  };

  // All matches in the order in which they are drawn: by row, and from left to right.
  const matchesInOrder = useMemo(() => {
    const list: { part: number; node: number }[] = [];
    drawn.forEach((part, index) => {
      const flags = found[index];
      if (!flags) return;
      const { rowNodes, size: nodes } = part.layout;
      for (let place = 0; place < nodes; place += 1) {
        const node = rowNodes[place];
        // The root of the callers is that of the callees.
        if (flags[part.tree.node_name[node]] && part.layout.width[node] > 0 && !(node === 0 && (index === 0 && drawn.length > 1 || drawn.length === 1))) list.push({ part: index, node });
      }
    });
    return list;
  }, [drawn, found]);
  const matchPlace = matchesInOrder.findIndex((each) => each.part === selected.part && each.node === selected.node);
  useEffect(() => props.onMatch?.(matchPlace, matchesInOrder.length), [matchPlace, matchesInOrder]);
  useEffect(() => () => props.onMatch?.(-1, 0), []);
  const step = (back: boolean) => {
    const count = matchesInOrder.length;
    if (count === 0) return;
    const next = matchesInOrder[matchPlace < 0 ? (back ? count - 1 : 0) : (matchPlace + (back ? count - 1 : 1)) % count];
    setSelected(next);
    const part = drawn[next.part];
    keepVisible(part, part.layout.depth[next.node]);
    // A match outside of what fills the width, or too narrow to be seen, becomes what fills it.
    const { left, right } = wanted[next.part];
    const [start, wide] = [part.layout.start[next.node], part.layout.width[next.node]];
    const isOutside = start + wide <= left || start >= right || (next.part === zoomedPart && part.layout.depth[next.node] < part.layout.depth[zoomedNode] && !isAncestor(part.layout, next.node, zoomedNode));
    if (isOutside || (wide / Math.max(1e-9, right - left)) * size.width < LEAST_MATCH) zoomTo(next);
  };
  const saveSvg = () => {
    const height = rows * ROW + 4;
    // On the page, a flame stands at the bottom of the room that there is; the picture is as high as the flame.
    const above = drawn.length === 1 && drawn[0].upwards ? contentHeight - height : 0;
    saveFile(`${props.title ?? "flame-graph"}.svg`, "image/svg+xml", svgOf(pictures(above), size.width, height, theme, props.title ?? props.label));
  };
  if (props.control) props.control.current = { step, saveSvg };
  const tip = hovered.node >= 0 ? nodeFor(hovered) : null;
  return (
    <div class="flame">
      <div class="flame-scroll" ref={scroller} onScroll={() => paintLatest.current()}>
        <div class="flame-space" style={{ height: `${contentHeight}px` }}>
          <canvas ref={canvas} class="flame-canvas" style={{ width: `${size.width}px`, height: `${size.height}px` }} tabIndex={0} role="application" aria-label={props.label} aria-describedby="flame-details"
            onKeyDown={keys}
            onPointerMove={(event) => {
              const where = find(event.clientX, event.clientY);
              if (where.part !== hovered.part || where.node !== hovered.node) setHovered(where);
              if (where.node >= 0) setLastHovered(where);
              setPointer({ x: event.clientX, y: event.clientY });
            }}
            onPointerLeave={() => setHovered(NONE)}
            onContextMenu={(event) => {
              if (!isRightClick(event)) return;
              const where = find(event.clientX, event.clientY);
              canvas.current!.focus();
              openMenu(menuOf(where), { x: event.clientX, y: event.clientY });
            }}
            onClick={(event) => {
              const where = find(event.clientX, event.clientY);
              setSelected(where);
              if (where.node >= 0) zoomTo(where);
            }} />
        </div>
      </div>
      {tip && <div class="tip" style={tipPlace(pointer)}>{props.tip(tip)}</div>}
      <div class="flame-details" id="flame-details" aria-live="polite">{props.details(shownNode, matched)}{shownNode && menuOf(whereShown) && <MoreButton subject={menuOf(whereShown)!} />}</div>
    </div>
  );
}

/** A function that has no name of its own (`{closure#0}`) is called by its place, too. */
function labelOf({ tree, labels, libraryCalls }: Drawn, node: number, withLine: boolean): string {
  const name = `${libraryCalls.has(node) ? "→ " : ""}${labels[tree.node_name[node]] ?? "?"}`;
  const line = tree.node_line[node];
  if (withLine && line > 0 && !libraryCalls.has(node)) {
    const file = tree.files[tree.node_file[node]] ?? "";
    return `${name} ${clean(file.slice(file.lastIndexOf("/") + 1))}:${line}`;
  }
  return NAMELESS.test(name) ? `${name} ${clean(format.place(tree.files[tree.node_file[node]], tree.node_line[node]))}` : name;
}

function tipPlace({ x, y }: { x: number; y: number }) {
  const horizontally = x > innerWidth / 2 ? { right: `${innerWidth - x + 10}px` } : { left: `${x + 12}px` };
  const vertically = y > innerHeight * 0.7 ? { bottom: `${innerHeight - y + 12}px` } : { top: `${y + 16}px` };
  return { ...horizontally, ...vertically };
}

