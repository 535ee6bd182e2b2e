// A memory image: who keeps how much, as a treemap by retained size; one object closely; two images compared.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ImageCompare, ImageHeap, ImageObject, TreemapAnswer } from "../answers";
import { useAnswer } from "../answer";
import { choice, choose } from "../choice";
import { SaveCsv, type CsvColumns } from "../csv";
import { FADED } from "../flame/draw";
import * as format from "../format";
import { copyText } from "../link";
import { matcherOf } from "../matcher";
import { isMenuKey, isRightClick, menuHandlers, openMenu, openMenuAt } from "../menu";
import { clean } from "../names";
import { question } from "../question";
import { Search } from "../search";
import { source, sources, titleOf } from "../sources";
import { colours, functionColour } from "../theme";
import { StatusLine } from "../status";
import type { Subject } from "../subject";
import { cellAt, squarify, type Cell } from "../treemap";

export function ImageView() {
  const file = source.value!;
  const { pick, other, node } = choice.value;
  const heap = useAnswer<ImageHeap>(question("image/heap", { source: file.id }));
  const treemap = useAnswer<TreemapAnswer>(question("image/treemap", { source: file.id, depth: 24, least: "0.0005" }));
  const object = useAnswer<ImageObject>(pick ? question("image/object", { source: file.id, address: pick }) : null);
  const images = sources.value!.filter((each) => each.kind === "image" && each.id !== file.id);
  const comparison = useAnswer<ImageCompare>(images.some((each) => each.id === other) ? question("image/compare", { a: file.id, b: other }) : null);
  const data = heap.data;
  return (
    <div class="image-view">
      <div class="tools">
        {data && <small>{format.bytes(data.live_bytes)} in {format.count(data.live_objects)} objects are live, of {format.bytes(data.heap_bytes)} on the heap; read as {clean(data.lens)}{data.waste.length ? `; ${data.waste.map((each) => `${clean(each.what)} ${format.bytes(each.bytes)}`).join(", ")}` : ""}{data.stable ? `; stable memory ${format.bytes(data.stable.bytes)}` : ""}</small>}
        <span class="stretch" />
        {node && <button type="button" onClick={() => choose({ node: "" })}>The whole</button>}
        {images.length > 0 && (
          <label>Compare with <select value={other ?? ""} onChange={(event) => choose({ other: event.currentTarget.value === "" ? null : Number(event.currentTarget.value) })}>
            <option value="">nothing</option>{images.map((each) => <option value={each.id} key={each.id}>{titleOf(each)}</option>)}
          </select></label>
        )}
        <Search hint="Search shapes" />
        {comparison.data ? <SaveCsv part="image-change" columns={CHANGE_CSV} rows={() => comparison.data!.shapes} /> : data && <SaveCsv part="image-shapes" columns={SHAPE_CSV} rows={() => data.shapes} />}
        <StatusLine answer={heap} /><StatusLine answer={treemap} /><StatusLine answer={comparison} />
      </div>
      <div class="split">
        {comparison.data ? <Compared data={comparison.data} /> : treemap.data && treemap.data.nodes.length > 0 ? <Treemap data={treemap.data} /> : <p class="nothing">{treemap.data ? "Nothing is live." : ""}</p>}
        <aside class="picked" aria-label="Object">
          <StatusLine answer={object} />
          {object.data ? <Inspector data={object.data} /> : data && <Shapes data={data} />}
        </aside>
      </div>
    </div>
  );
}

function Treemap({ data }: { data: TreemapAnswer }) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [hovered, setHovered] = useState<{ cell: Cell; x: number; y: number } | null>(null);
  const [active, setActive] = useState(-1);
  const theme = colours.value;
  const { search } = choice.value;
  const root = Math.min(data.nodes.length - 1, Number(choice.value.node) || 0);
  const matches = useMemo(() => matcherOf(search).matches, [search]);
  const cells = useMemo(() => squarify(data.nodes.map((each) => ({ parent: each.parent, size: each.retained })), root, size.width, size.height), [data, root, size]);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setSize({ width: Math.floor(entry.contentRect.width), height: Math.floor(entry.contentRect.height) }));
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = canvas.current!;
    const context = element.getContext("2d");
    if (!context || size.width === 0) return;
    const ratio = devicePixelRatio || 1;
    element.width = Math.round(size.width * ratio);
    element.height = Math.round(size.height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const cell of [...cells].sort((a, b) => a.depth - b.depth)) {
      const node = data.nodes[cell.node];
      const marked = cell.node === hovered?.cell.node || cell.node === active;
      const isFound = matches === null || matches(node.label);
      context.globalAlpha = isFound ? 1 : FADED;
      context.fillStyle = matches !== null && isFound ? theme.match : cell.depth === 0 ? theme.line : functionColour(node.kind || node.label, node.label);
      context.fillRect(cell.x, cell.y, cell.width - 1, cell.height - 1);
      context.globalAlpha = 1;
      context.strokeStyle = marked ? theme.selected : theme.paper;
      context.lineWidth = marked ? 2 : 1;
      context.strokeRect(cell.x + 0.5, cell.y + 0.5, cell.width - 1, cell.height - 1);
      if (cell.width < 34 || cell.height < 13) continue;
      const text = `${aroundOf(data, cell)}${clean(node.label)}${node.count > 1 ? ` ×${format.count(node.count)}` : ""}  ${format.bytes(node.retained)}`;
      const letters = Math.floor((cell.width - 8) / 5.6);
      context.fillStyle = theme.ink;
      context.fillText(text.length > letters ? `${text.slice(0, Math.max(1, letters - 1))}…` : text, cell.x + 4, cell.y + 8, cell.width - 8);
    }
  });
  const cellUnder = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return cellAt(cells, event.clientX - box.left, event.clientY - box.top);
  };
  const open = (node: number) => {
    const address = data.nodes[node].address;
    if (address) choose({ pick: address });
  };
  const subjectOf = (node: number): Subject => {
    const { address, label } = data.nodes[node];
    const zoom = { name: "Zoom in", run: () => choose({ node: String(node) }) };
    if (!address) return { ...subjectOfShape(label), actions: [zoom, ...subjectOfShape(label).actions!] };
    const subject = subjectOfObject(address, label, label);
    return { ...subject, actions: [zoom, ...subject.actions!] };
  };
  const keys = (event: KeyboardEvent) => {
    if (isMenuKey(event)) {
      if (active > 0) openMenuAt(subjectOf(active), canvas.current!);
      event.preventDefault();
      return;
    }
    const place = cells.findIndex((cell) => cell.node === active);
    if (event.key === "ArrowRight" || event.key === "ArrowDown") setActive(cells[Math.min(cells.length - 1, place + 1)]?.node ?? -1);
    else if (event.key === "ArrowLeft" || event.key === "ArrowUp") setActive(cells[Math.max(0, place - 1)]?.node ?? -1);
    else if (event.key === "Enter" && active >= 0) open(active);
    else if (event.key === " " && active >= 0) choose({ node: String(active) });
    else if (event.key === "Escape" && root !== 0) choose({ node: String(data.nodes[root].parent ?? 0) });
    else return;
    event.preventDefault();
  };
  const shown = hovered?.cell.node ?? active;
  const node = data.nodes[shown];
  return (
    <div class="treemap">
      <div class="treemap-frame" ref={frame}>
        <canvas ref={canvas} tabIndex={0} role="application" aria-label="Treemap by retained size: arrows walk, Enter looks at the object, Space zooms, Escape zooms out" style={{ width: `${size.width}px`, height: `${size.height}px` }}
          onPointerMove={(event) => { const cell = cellUnder(event); setHovered(cell && { cell, x: event.clientX, y: event.clientY }); }} onPointerLeave={() => setHovered(null)}
          onClick={(event) => { const cell = cellUnder(event); if (cell) { setActive(cell.node); open(cell.node); } }} onDblClick={(event) => { const cell = cellUnder(event); if (cell) choose({ node: String(cell.node) }); }} onKeyDown={keys}
          onContextMenu={(event) => {
            if (!isRightClick(event)) return;
            const cell = cellUnder(event);
            if (cell && cell.node !== 0) openMenu(subjectOf(cell.node), { x: event.clientX, y: event.clientY });
          }} />
      </div>
      <div class="flame-details" aria-live="polite">{node ? <><span class="details-name">{clean(node.label)}</span><span>retained {format.bytes(node.retained)}; {format.bytes(node.bytes)} of its own{node.count > 1 ? `; ${format.count(node.count)} of them` : ""}; {clean(node.kind)}{node.address ? ` at ${clean(node.address)}` : ""}</span></> : <span>As large as what each object keeps alive. Click for the object, double click to zoom.</span>}</div>
    </div>
  );
}

/** "var › 9 more › ": what the cell's frame stands for, too. */
function aroundOf(data: TreemapAnswer, { around }: Cell): string {
  if (around.length === 0) return "";
  return `${clean(data.nodes[around[0]].label)} › ${around.length > 1 ? `${around.length - 1} more › ` : ""}`;
}

function Inspector({ data }: { data: ImageObject }) {
  const { object } = data;
  return (
    <>
      <h2>{clean(object.shape)} <button type="button" class="quiet" aria-label="Close" onClick={() => choose({ pick: "" })}>×</button></h2>
      <p>{clean(object.kind)} at <code>{clean(object.address)}</code>; {format.bytes(object.bytes)}, retained {format.bytes(object.retained_bytes)}</p>
      {object.path && <><h3>Path from a root</h3><p class="path">{clean(object.path)}</p></>}
      <h3>Kept by</h3>
      <ul class="neighbours">
        {object.referrers.map((each, index) => <li key={index} {...menuHandlers(() => ({ name: each.what, actions: each.address ? [{ name: "Look at it", run: () => choose({ pick: each.address! }) }] : [] }))}>{each.address ? <button type="button" class="frame" onClick={() => choose({ pick: each.address! })}>{clean(each.what)} {clean(each.step)}</button> : <span>{clean(each.what)} {clean(each.step)}</span>}</li>)}
        {object.referrers.length === 0 && <li class="nothing">nothing</li>}
      </ul>
      {object.value && <><h3>Value</h3><pre>{object.value.split("\n").map(clean).join("\n")}</pre></>}
      {typeof object.contents === "string" && <><h3>Contents</h3><pre>{object.contents.split("\n").map(clean).join("\n")}</pre></>}
    </>
  );
}

type Shape = ImageHeap["shapes"][number];
type ComparedShape = ImageCompare["shapes"][number];

const SHAPE_CSV: CsvColumns<Shape> = { shape: (each) => each.shape, kind: (each) => each.kind, count: (each) => each.count, bytes: (each) => each.bytes, retained_bytes: (each) => each.retained_bytes };
const CHANGE_CSV: CsvColumns<ComparedShape> = {
  shape: (each) => each.shape, change_bytes: (each) => each.change_bytes, change_count: (each) => each.change_count, bytes: (each) => each.bytes.join(" "), count: (each) => each.count.join(" "),
};

/** Marks a shape in the treemap and in the lists; once more, all of them again. */
const find = (shape: string) => choose({ search: choice.value.search === shape ? "" : shape });

/** What the menu of a shape is about. */
function subjectOfShape(shape: string, largest?: string): Subject {
  return { name: shape, actions: [{ name: "Find in the picture", run: () => choose({ search: shape }) }, ...(largest ? [{ name: "Look at its largest object", run: () => choose({ pick: largest }) }] : [])] };
}

/** What the menu of an object is about. */
function subjectOfObject(address: string, shape: string, name: string): Subject {
  return { name, actions: [{ name: "Look at it", run: () => choose({ pick: address }) }, { name: "Find its shape", run: () => choose({ search: shape }) }, { name: "Copy address", run: () => void copyText(address, "The address:") }] };
}

function Shapes({ data }: { data: ImageHeap }) {
  const { search } = choice.value;
  const matches = matcherOf(search).matches ?? (() => true);
  const largestOf = new Map([...data.largest].reverse().map((each) => [each.shape, each.address]));
  const shapes = data.shapes.filter((each) => matches(each.shape));
  const largest = data.largest.filter((each) => matches(each.shape) || (each.path !== null && matches(each.path)));
  return (
    <>
      <h2>By shape</h2>
      <ul class="neighbours shapes">{shapes.slice(0, 200).map((each) => <li key={each.shape} {...menuHandlers(() => subjectOfShape(each.shape, largestOf.get(each.shape)))}><span class="numeric">{format.bytes(each.retained_bytes)}</span> <button type="button" class="frame" aria-pressed={search === each.shape} title={`${format.bytes(each.bytes)} of their own\nFind in the picture`} onClick={() => find(each.shape)}>{clean(each.shape)} <small>×{format.count(each.count)}</small></button></li>)}</ul>
      {shapes.length > 200 && <p><small>and {format.plural(shapes.length - 200, "more shape", "more shapes")}: a search finds them</small></p>}
      {data.stable && data.stable.regions.length > 0 && (
        <>
          <h2>Regions of stable memory</h2>
          <ul class="neighbours regions" aria-label="Regions of stable memory">{data.stable.regions.slice(0, 200).map((each) => <li key={each.id} {...menuHandlers(() => ({ name: each.owner ?? `region ${each.id}` }))}><span class="numeric">{format.bytes(each.reserved_bytes)}</span> <span class={each.is_live ? "name" : "name grown"} title={`${format.bytes(each.bytes)} of it in use`}>{each.owner === null ? (each.is_live ? "the runtime" : "nothing leads to it any more") : clean(each.owner)} <small>region {each.id}</small></span></li>)}</ul>
        </>
      )}
      <h2>Largest objects</h2>
      <ul class="neighbours">{largest.slice(0, 50).map((each) => <li key={each.address} {...menuHandlers(() => subjectOfObject(each.address, each.shape, each.path ?? each.shape))}><span class="numeric">{format.bytes(each.bytes)}</span> <button type="button" class="frame" onClick={() => choose({ pick: each.address })}>{clean(each.path ?? each.shape)}</button></li>)}</ul>
    </>
  );
}

function Roots({ title, roots }: { title: string; roots: ImageCompare["roots"] }) {
  if (roots.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="neighbours" aria-label={title}>{roots.slice(0, 20).map((each) => <li key={each.name} {...menuHandlers(() => ({ name: each.name }))}><span class={`numeric ${each.change_bytes > 0 ? "grown" : "shrunk"}`}>{format.signed(format.bytes(each.change_bytes), each.change_bytes)}</span> {clean(each.name)}</li>)}</ul>
    </>
  );
}

function Compared({ data }: { data: ImageCompare }) {
  const matches = matcherOf(choice.value.search).matches ?? (() => true);
  return (
    <div class="image-compare">
      <p><b>{data.images.map((each) => format.bytes(each.live_bytes)).join(" → ")}</b> live; {format.bytes(data.came.bytes)} in {format.count(data.came.count)} objects came, {format.bytes(data.went.bytes)} in {format.count(data.went.count)} went.</p>
      <Roots title="Roots that keep more" roots={data.roots.filter((each) => each.change_bytes > 0)} />
      <Roots title="Roots that keep less" roots={data.roots.filter((each) => each.change_bytes < 0).reverse()} />
      <h3>Shapes</h3>
      <ul class="neighbours">{data.shapes.filter((each) => matches(each.shape)).sort((one, two) => Math.abs(two.change_bytes) - Math.abs(one.change_bytes)).slice(0, 200).map((each) => <li key={each.shape} {...menuHandlers(() => ({ name: each.shape }))}><span class={`numeric ${each.change_bytes > 0 ? "grown" : "shrunk"}`}>{format.signed(format.bytes(each.change_bytes), each.change_bytes)}</span> <span class="name">{clean(each.shape)} <small>{each.count.map(format.count).join(" → ")}</small></span></li>)}</ul>
      <h3>What came</h3>
      <ul class="neighbours">{data.new.slice(0, 50).map((each, index) => <li key={index} {...menuHandlers(() => (each.example ? subjectOfObject(each.example, each.shape, each.path ?? each.shape) : { name: each.shape }))}><span class="numeric">{format.bytes(each.bytes)}</span> <span class="name">{clean(each.shape)} ×{format.count(each.count)} <small>{clean(each.path ?? "")}</small></span></li>)}</ul>
    </div>
  );
}
