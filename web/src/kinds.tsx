// Heap, mappings or both: the switch before the filters. Its choice is a filter like any other, so every view and the timeline follow it.
import { choice, choose } from "./choice";
import { source } from "./sources";

const KINDS = [
  { filter: null, title: "all", hint: "Heap and mappings" },
  { filter: "heap:malloc", title: "heap", hint: "Only blocks of malloc and its relatives" },
  { filter: "heap:mmap", title: "mappings", hint: "Only memory that the program mapped by itself" },
] as const;

/** Offered where a program has both. Reserved address space and mapped files are in neither. */
export function MemoryKinds() {
  const heaps = source.value?.heaps ?? [];
  if (!heaps.includes("malloc") || !heaps.includes("mmap")) return null;
  const { filters } = choice.value;
  const others = filters.filter((each) => !KINDS.some(({ filter }) => filter === each));
  return (
    <div class="switch" role="group" aria-label="Kind of memory">
      {KINDS.map(({ filter, title, hint }) => {
        const isChosen = filter === null ? others.length === filters.length : filters.includes(filter);
        return <button type="button" key={title} aria-pressed={isChosen} title={hint} onClick={() => choose({ filters: filter === null ? others : [...others, filter] })}>{title}</button>;
      })}
    </div>
  );
}
