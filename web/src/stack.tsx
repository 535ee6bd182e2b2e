// Functions and stacks as text, with what can be done with them.
import type { Frame, Row } from "./answers";
import { addFilter, choose } from "./choice";
import * as format from "./format";
import { clean } from "./names";

export function functionOf(frame?: Frame | null): string {
  return clean(frame?.function ?? frame?.address ?? "?");
}

const LIBRARY = /^\/rustc\/|\/rustlib\/src\/rust\/|^\/rust\/deps\/|\/include\/c\+\+\//;

/** A language's own library: rarely what somebody looks for. */
export function isLibrary(frame: Frame): boolean {
  return LIBRARY.test(frame.file ?? "");
}

/** The innermost frame of the program itself. */
export function ownFrame(stack: Frame[]): Frame | undefined {
  return stack.find((frame) => !isLibrary(frame) && (frame.file || frame.module || frame.function)) ?? stack[0];
}

/** What a row is called: its function and place, or its key. */
export function RowName({ row }: { row: Pick<Row, "key" | "frame"> }) {
  const place = format.place(row.frame?.file, row.frame?.line);
  if (!row.frame?.function) return <span class="name" title={clean(row.key)}>{clean(row.key)}</span>;
  return <span class="name" title={`${functionOf(row.frame)}\n${clean(row.frame.file ?? "")}`}>{functionOf(row.frame)} {place && <small>{clean(place)}</small>}</span>;
}

/** A small menu in a line: each of them changes the choice. */
export function FunctionActions({ name }: { name: string }) {
  return (
    <span class="actions">
      <button type="button" onClick={() => choose({ view: "flame", focus: name })} title="Flame graph with callers above and callees below (f)">Focus</button>
      <button type="button" onClick={() => addFilter(`inside:equal:${name}`)} title="Only what is allocated inside this function (i)">Only inside</button>
      <button type="button" onClick={() => addFilter(`outside:equal:${name}`)} title="Only what is allocated outside of this function (o)">Not inside</button>
    </span>
  );
}

export function Stack({ stack, site }: { stack: Frame[]; site?: number | null }) {
  return (
    <div class="stack">
      {site !== null && site !== undefined && <p class="actions"><button type="button" onClick={() => addFilter(`site:${site}`)}>Only this site</button></p>}
      <ol>
        {stack.map((frame, index) => (
          <li key={index} class={isLibrary(frame) ? "library" : ""}>
            <button type="button" class="frame" title="Focus the flame graph on this function" onClick={() => frame.function && choose({ view: "flame", focus: frame.function })}>{functionOf(frame)}</button>
            <small title={clean(frame.file ?? frame.module ?? "")}>{clean(format.place(frame.file, frame.line) || format.shortPath(frame.module ?? ""))}</small>
          </li>
        ))}
      </ol>
      {stack.length === 0 && <p class="nothing">No stack is known.</p>}
    </div>
  );
}
