// A flame graph that follows a live process: what is live, or how that grew.
import { useMemo, useRef, useState } from "preact/hooks";
import { choice } from "../choice";
import { FlameGraph, type FlameControl, type Node, type Part } from "../flame/graph";
import { Matches, SaveSvg } from "../flame/tools";
import * as format from "../format";
import { clean, shown } from "../names";
import { signOf, type LiveTree } from "./answers";

/** The functions from the root to the node that fills the width: their places in the tree change from look to look, their names do not. */
type Zoom = string[];

export function LiveFlame({ tree, isGrowth }: { tree: LiveTree; isGrowth: boolean }) {
  const { search } = choice.value;
  const [zoom, setZoom] = useState<Zoom>([]);
  const parts = useMemo<Part[]>(() => [{ tree, upwards: false }], [tree]);
  const control = useRef<FlameControl | null>(null);
  const [match, setMatch] = useState({ place: -1, count: 0 });
  const isEstimate = tree.now_look.is_estimate;
  const line = ({ tree: of, layout, node }: Node): string => {
    if (!isGrowth) return `${signOf(isEstimate)}${format.bytes(of.node_value[node])} · ${format.percent(layout.width[node] / Math.max(1, layout.total))} · ${signOf(isEstimate)}${format.plural(of.node_blocks[node], "block")}`;
    const [before, after] = [of.node_before?.[node] ?? 0, of.node_after?.[node] ?? 0];
    return `${signOf(isEstimate)}${format.signed(format.bytes(after - before), after - before)} · ${signOf(isEstimate)}${format.bytes(before)} → ${signOf(isEstimate)}${format.bytes(after)}`;
  };
  return (
    <>
      <div class="tools">
        {isGrowth && <span class="legend"><i class="shrunk" /> shrank <i class="same" /> the same <i class="grown" /> grew</span>}
        {zoom.length > 0 && <button type="button" onClick={() => setZoom([])}>Zoom out</button>}
        <Matches control={control} {...match} isSearched={search !== ""} />
        <SaveSvg control={control} />
      </div>
      <FlameGraph parts={parts} blocks={false} compared={isGrowth} zoomed={pathOfNames(tree, zoom)} onZoom={(path) => setZoom(namesOfPath(tree, path))} search={search} label="Flame graph of the process: arrows walk, Enter zooms, Escape zooms out"
        control={control} onMatch={(place, count) => setMatch((now) => (now.place === place && now.count === count ? now : { place, count }))} title="live"
        tip={(each) => <><b>{clean(each.name)}</b><span>{line(each)}</span></>}
        details={(each) => (each ? <><span class="details-name" title={clean(each.name)}>{shown(each.name)}</span><span>{line(each)}</span></> : <span>{isGrowth ? "As wide as the larger of before and now." : `${signOf(isEstimate)}${format.bytes(tree.node_value[0] ?? 0)} in all.`} Open a look to filter and focus.</span>)} />
    </>
  );
}

/** The children of a node, in order. */
function childrenOf(tree: LiveTree, node: number): number[] {
  const children = [];
  for (let at = node + 1; at < tree.node_depth.length && tree.node_depth[at] > tree.node_depth[node]; at += 1) if (tree.node_depth[at] === tree.node_depth[node] + 1) children.push(at);
  return children;
}

function namesOfPath(tree: LiveTree, path: string): Zoom {
  const names: Zoom = [];
  let node = 0;
  for (const part of path.slice(path.indexOf(":") + 1).split(".")) {
    const child = part === "" ? undefined : childrenOf(tree, node)[Number(part)];
    if (child === undefined) break;
    names.push(tree.names[tree.node_name[child]]);
    node = child;
  }
  return names;
}

/** As far as the tree still has these functions. */
function pathOfNames(tree: LiveTree, names: Zoom): string {
  const path: number[] = [];
  let node = 0;
  for (const name of names) {
    const children = childrenOf(tree, node);
    const at = children.findIndex((child) => tree.names[tree.node_name[child]] === name);
    if (at < 0) break;
    path.push(at);
    node = children[at];
  }
  return path.join(".");
}
