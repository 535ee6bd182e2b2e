// The flame graph of the chosen metric.
import { useMemo } from "preact/hooks";
import type { FocusedTree, Tree } from "../answers";
import { useAnswer } from "../answer";
import { addFilter, choice, choose } from "../choice";
import { FlameGraph, type Node, type Part } from "../flame/graph";
import * as format from "../format";
import { clean, shown } from "../names";
import { about } from "../question";
import { saved } from "../saved";
import { Search } from "../search";
import { has, metric as shownMetric } from "../sources";
import { FunctionActions } from "../stack";
import { StatusLine } from "../status";

export function FlameView() {
  const { measure, direction, upright, focus, hide, merge, library, node, search } = choice.value;
  const metric = shownMetric.value;
  const answer = useAnswer<Tree | FocusedTree>(about("tree", {
    metric, direction, measure: saved ? null : measure, focus: focus || null, hide, merge_recursion: merge || null, library: library || null,
  }), 80);
  const data = answer.data;
  const parts = useMemo<Part[]>(() => {
    if (!data) return [];
    if ("callers" in data) return [{ tree: data.callers, upwards: true }, { tree: data.callees, upwards: false }];
    return [{ tree: data, upwards: upright }];
  }, [data, upright]);
  const whole = parts[parts.length - 1]?.tree;
  const left = whole?.left_out;
  const notInPage = saved && (focus || hide.length > 0 || merge || library);
  return (
    <div class={`flame-view${answer.waiting ? " old" : ""}`}>
      <div class="tools">
        <select aria-label="Direction" value={direction} onChange={(event) => choose({ direction: event.currentTarget.value as "down" | "up" })} disabled={focus !== ""}>
          <option value="down">from the start down</option><option value="up">inverted: from the allocation up</option>
        </select>
        <label><input type="checkbox" checked={upright} disabled={focus !== ""} onChange={(event) => choose({ upright: event.currentTarget.checked })} /> flames upwards</label>
        <label><input type="checkbox" checked={merge} onChange={(event) => choose({ merge: event.currentTarget.checked })} /> merge recursion</label>
        <label title="Frames of the language's own library, and of what runs before main"><input type="checkbox" checked={library} onChange={(event) => choose({ library: event.currentTarget.checked })} /> library frames</label>
        {node && <button type="button" onClick={() => choose({ node: "" })} title="Esc">Zoom out</button>}
        <Search hint="Search functions" />
        <span class="stretch" />
        {left && left.nodes > 0 && <small title="Too narrow to be seen">{format.count(left.nodes)} narrow nodes left out</small>}
        <StatusLine answer={answer} />
      </div>
      {notInPage && <p class="nothing">Focus, hiding, merging and library frames are not in this saved page.</p>}
      {whole && whole.node_depth.length > 0 && whole.total > 0
        ? <FlameGraph parts={parts} blocks={measure === "blocks"} zoomed={node} onZoom={(path) => choose({ node: path })} search={search} label="Flame graph: arrows walk, Enter zooms, Escape zooms out"
            tip={(each) => <Tip node={each} />} details={(each, matched) => <Details node={each} matched={matched} whole={whole} />} onKey={keys} />
        : !answer.waiting && !answer.problem && data && <p class="nothing">Nothing to show for this choice.</p>}
    </div>
  );
}

function keys(key: string, node: Node): boolean {
  if (node.isRoot && !choice.value.focus) return false;
  if (key === "f") choose({ focus: node.name });
  else if (key === "i") addFilter(`inside:equal:${node.name}`);
  else if (key === "o") addFilter(`outside:equal:${node.name}`);
  else if (key === "h") choose({ hide: [...choice.value.hide, node.name] });
  else return false;
  return true;
}

/** One line about a node: value, share, function, place. */
export function lineOf({ tree, layout, node }: Node): string {
  const { measure } = choice.value;
  const metric = shownMetric.value;
  const value = measure === "blocks" ? tree.node_blocks[node] : tree.node_value[node];
  const parts = [format.valued(value, metric, measure), `${format.percent(layout.width[node] / Math.max(1, layout.total))}`];
  if (measure === "bytes" && !format.isCount(metric) && has("counts")) parts.push(`${format.count(tree.node_blocks[node])} blocks`);
  const self = tree.node_self[node];
  if (self > 0 && self < value) parts.push(`${format.valued(self, metric, measure)} of its own`);
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
  if (!node) return <>{found}<span>{format.valued(measure === "blocks" ? whole.node_blocks[0] : whole.node_value[0], metric, measure)} in all. Click to zoom; arrows, Enter and Escape do the same.</span></>;
  const file = node.tree.files[node.tree.node_file[node.node]];
  return (
    <>
      {found}
      <span class="details-name" title={clean(node.name)}>{shown(node.name)} {file && <small>{clean(format.place(file, node.tree.node_line[node.node]))}</small>}</span>
      <span>{lineOf(node)}</span>
      {!node.isRoot && <FunctionActions name={node.name} />}
      {!node.isRoot && <button type="button" title="Give its part to its callers (h)" onClick={() => choose({ hide: [...choice.value.hide, node.name] })}>Hide</button>}
    </>
  );
}
