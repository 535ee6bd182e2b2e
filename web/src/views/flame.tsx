// The flame graph of the chosen metric.
import { useMemo, useRef, useState } from "preact/hooks";
import type { FocusedTree, Tree } from "../answers";
import { useAnswer } from "../answer";
import { addFilter, choice, choose, hideFunction } from "../choice";
import { fileName } from "../download";
import { FlameGraph, type FlameControl, type Node, type Part } from "../flame/graph";
import { Matches, SaveSvg } from "../flame/tools";
import * as estimate from "../estimate";
import * as format from "../format";
import { clean, shown } from "../names";
import { about } from "../question";
import { SavePprof } from "../pprof";
import { saved } from "../saved";
import { Search } from "../search";
import { has, metric as shownMetric, source } from "../sources";
import { hasSource, openSource } from "../source";
import { FunctionActions } from "../stack";
import { Nothing, StatusLine } from "../status";

export function FlameView() {
  const { measure, direction, upright, focus, hide, merge, library, lines, node, search } = choice.value;
  const metric = shownMetric.value;
  const answer = useAnswer<Tree | FocusedTree>(about("tree", {
    metric, direction, measure: saved ? null : measure, focus: focus || null, hide, merge_recursion: merge || null, library: library || null, split: lines && !saved ? "line" : null,
  }), 80);
  const data = answer.data;
  const parts = useMemo<Part[]>(() => {
    if (!data) return [];
    if ("callers" in data) return [{ tree: data.callers, upwards: true }, { tree: data.callees, upwards: false }];
    return [{ tree: data, upwards: upright }];
  }, [data, upright]);
  const control = useRef<FlameControl | null>(null);
  const [match, setMatch] = useState({ place: -1, count: 0 });
  const whole = parts[parts.length - 1]?.tree;
  const left = whole?.left_out;
  const notInPage = saved && (focus || hide.length > 0 || merge || library || lines);
  return (
    <div class={`flame-view${answer.isOld ? " old" : ""}`}>
      <div class="tools">
        <select aria-label="Direction" value={direction} onChange={(event) => choose({ direction: event.currentTarget.value as "down" | "up" })} disabled={focus !== ""}>
          <option value="down">from main to allocations</option><option value="up">inverted: from allocations to main</option>
        </select>
        <span class="switch" role="group" aria-label="Drawn as"><button type="button" aria-pressed={!upright} disabled={focus !== ""} title="The root is at the top" onClick={() => choose({ upright: false })}>icicle</button><button type="button" aria-pressed={upright} disabled={focus !== ""} title="The root is at the bottom" onClick={() => choose({ upright: true })}>flame</button></span>
        <label><input type="checkbox" checked={merge} onChange={(event) => choose({ merge: event.currentTarget.checked })} /> merge recursion</label>
        <label title="Frames of the language's own library, and of what runs before main"><input type="checkbox" checked={library} onChange={(event) => choose({ library: event.currentTarget.checked })} /> library frames</label>
        <label title="A node for each line of a function, and below it the library function that it calls"><input type="checkbox" checked={lines} onChange={(event) => choose({ lines: event.currentTarget.checked })} /> lines</label>
        {node && <button type="button" onClick={() => choose({ node: "" })} title="Esc">Zoom out</button>}
        <Search hint="Search functions" onEnter={(back) => control.current?.step(back)} />
        <Matches control={control} {...match} isSearched={search !== ""} />
        <span class="stretch" />
        {left && left.nodes > 0 && <small title="Too narrow to be seen">{format.count(left.nodes)} narrow nodes left out</small>}
        <span class="legend" title="Functions of one package, or of one folder, have the same hue; shades tell neighbours apart">colour: package{search !== "" && <><i class="match" /> found</>}{node && <><i class="faded" /> callers of the zoomed frame</>}</span>
        <SaveSvg control={control} />
        <SavePprof />
        <StatusLine answer={answer} />
      </div>
      {notInPage && <p class="nothing">Focus, hiding, merging, library frames and lines are not in this saved page.</p>}
      {whole && whole.node_depth.length > 0 && whole.total > 0
        ? <FlameGraph parts={parts} blocks={measure === "blocks"} lines={lines && !saved} zoomed={node} onZoom={(path) => choose({ node: path })} search={search} label="Flame graph: arrows walk, Enter zooms, Escape zooms out"
            tip={(each) => <Tip node={each} />} details={(each, matched) => <Details node={each} matched={matched} whole={whole} />} onKey={keys}
            inverted={direction === "up"} control={control} onMatch={(place, count) => setMatch((now) => (now.place === place && now.count === count ? now : { place, count }))} title={`${fileName(source.value?.name ?? "")}-${metric}`} />
        : !answer.waiting && !answer.problem && data && <p class="nothing"><Nothing /></p>}
    </div>
  );
}

function keys(key: string, node: Node): boolean {
  if (node.isRoot && !choice.value.focus) return false;
  if (key === "s" && hasSource(placeOfNode(node))) openSource(placeOfNode(node));
  // The data of a saved page is of one choice.
  else if (saved) return false;
  else if (key === "f") choose({ focus: node.name });
  else if (key === "i") addFilter(`inside:equal:${node.name}`);
  else if (key === "o") addFilter(`outside:equal:${node.name}`);
  else if (key === "h") hideFunction(node.name);
  else return false;
  return true;
}

/** The file and the line of a node. */
function placeOfNode({ tree, node }: Node): { file: string; line: number } {
  return { file: tree.files[tree.node_file[node]] ?? "", line: tree.node_line[node] };
}

/** Opens the source of a node. */
export function NodeSource({ node }: { node: Node }) {
  const place = placeOfNode(node);
  return hasSource(place) ? <button type="button" title="Show the source of this line (s)" onClick={() => openSource(place)}>Source</button> : null;
}

/** One line about a node: value, share, function, place. */
export function lineOf({ tree, layout, node }: Node): string {
  const { measure } = choice.value;
  const metric = shownMetric.value;
  const value = measure === "blocks" ? tree.node_blocks[node] : tree.node_value[node];
  const range = measure === "bytes" && !format.isCount(metric) ? estimate.rangeOfBytes(value, tree.node_samples?.[node]) : null;
  const parts = [`${estimate.valued(value, metric, measure)}${range ? ` (${estimate.rangeText(range)})` : ""}`, `${format.percent(layout.width[node] / Math.max(1, layout.total))}`];
  if (measure === "bytes" && !format.isCount(metric) && has("counts")) parts.push(estimate.plural(tree.node_blocks[node], "block"));
  const self = tree.node_self[node];
  if (self > 0 && self < value) parts.push(`${estimate.valued(self, metric, measure)} of its own`);
  return parts.join(" · ");
}

function Tip({ node }: { node: Node }) {
  const file = node.tree.files[node.tree.node_file[node.node]];
  return (
    <>
      <b>{clean(node.name)}</b>
      {file && <small>{clean(file)}{node.tree.node_line[node.node] ? `:${node.tree.node_line[node.node]}` : ""}</small>}
      <span>{lineOf(node)}</span>
    </>
  );
}

function Details({ node, matched, whole }: { node: Node | null; matched: number | null; whole: Tree }) {
  const { measure } = choice.value;
  const metric = shownMetric.value;
  const found = matched === null ? null : <b class="found">found: {format.percent(matched)}</b>;
  if (!node) return <>{found}<span>{estimate.valued(measure === "blocks" ? whole.node_blocks[0] : whole.node_value[0], metric, measure)} in all. Click to zoom; arrows, Enter and Escape do the same.</span></>;
  const file = node.tree.files[node.tree.node_file[node.node]];
  return (
    <>
      {found}
      <span class="details-name" title={clean(node.name)}>{shown(node.name)} {file && <small>{clean(format.place(file, node.tree.node_line[node.node]))}</small>}</span>
      <span>{lineOf(node)}</span>
      {!node.isRoot && <NodeSource node={node} />}
      {!node.isRoot && <FunctionActions name={node.name} />}
      {!node.isRoot && !saved && <button type="button" title="Give its part to its callers (h)" onClick={() => hideFunction(node.name)}>Hide</button>}
    </>
  );
}
