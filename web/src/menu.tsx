// The menu of a frame or a row: a right click, the menu key, Shift+F10 or `⋯` opens it. Every action that a subject has is in one list here.
import { hasSource, openSource } from "./source";
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { addFilter, choice, choose, filtersAnd, hideFunction, treatAsAllocator } from "./choice";
import { copyText } from "./link";
import { clean, shown } from "./names";
import { saved } from "./saved";
import { has } from "./sources";
import { filterOf, keptBy, stackText, type Subject } from "./subject";

interface Action {
  name: string;
  key?: string;
  hint?: string;
  /** Whether it stands below a line. */
  begins?: boolean;
  run: () => void;
}

/** What can be done with a subject. */
export function actionsOf(subject: Subject): Action[] {
  const { function: name, site, stack, filter } = subject;
  const actions: (Action | false)[] = [...(subject.actions ?? [])];
  if (subject.isOwn) return actions.filter((action) => action !== false);
  const narrow = filterOf(subject);
  // The data of a saved page is of one choice. Filters and other views are about the chosen file, and a look at a live process is none.
  const isLook = choice.value.view === "live";
  if (!saved && !isLook) {
    if (name) {
      actions.push(
        { name: "Focus", key: "f", hint: "Flame graph with callers above and callees below", run: () => choose({ view: "flame", focus: name }) },
        { name: "Only inside", key: "i", hint: "Only what is allocated inside this function", run: () => addFilter(`inside:equal:${name}`) },
        { name: "Not inside", key: "o", hint: "Only what is allocated outside of this function", run: () => addFilter(`outside:equal:${name}`) },
      );
    }
    if (site !== null && site !== undefined) actions.push({ name: "Only this site", run: () => addFilter(`site:${site}`) }, { name: "Not this site", run: () => addFilter(`!site:${site}`) });
    if (filter) {
      const kind = filter.slice(0, filter.indexOf(":"));
      actions.push({ name: `Only this ${kind}`, hint: `A filter: ${keptBy(filter, kind)}`, run: () => addFilter(filter) }, { name: `Not this ${kind}`, run: () => addFilter(`!${filter}`) });
    }
    if (name) {
      const { hide, allocators, raw_names } = choice.value;
      actions.push(
        !hide.includes(name) && { name: "Hide in the flame graph", key: "h", hint: "Gives its part to its callers", run: () => hideFunction(name) },
        !raw_names && !allocators.includes(name) && { name: "Treat as allocator", hint: "It only passes memory on: name rows after its callers", run: () => treatAsAllocator(name) },
      );
    }
    if (narrow) {
      actions.push(
        has("blocks") && { name: "Show its blocks", begins: true, run: () => choose({ view: "blocks", filters: filtersAnd(narrow) }) },
        has("timeline") && { name: "Show its timeline", begins: !has("blocks"), hint: "A filter: the timeline and every view follow it", run: () => addFilter(narrow) },
      );
    }
  }
  if (isLook && name) {
    const isFlame = choice.value.compared === "flame";
    actions.push(
      { name: "Find in the list", hint: "Searches the rows for this name", run: () => choose({ compared: "table", search: name }) },
      { name: "Find in the flame graph", hint: "Searches the flame graph for this name", run: () => choose({ compared: "flame", search: name }) },
      (isFlame || choice.value.by !== "function") && { name: "Group by function", hint: "The list of functions, and this one in it", run: () => choose({ compared: "table", by: "function", search: name }) },
      (isFlame || choice.value.by !== "site") && { name: "Group by site", hint: "The list of call stacks with this function", run: () => choose({ compared: "table", by: "site", search: name }) },
    );
  }
  const { frame } = subject;
  if (frame && hasSource(frame) && !isLook) actions.push({ name: "Source", key: "s", begins: true, hint: "The lines of its file, and what they hold", run: () => openSource(frame) });
  actions.push({ name: "Copy name", begins: true, run: () => void copyText(subject.name, "The name:") });
  if (stack && stack.length > 0) actions.push({ name: "Copy stack", run: () => void copyText(stackText(stack), "The stack:") });
  return actions.filter((action) => action !== false);
}

interface OpenMenu {
  subject: Subject;
  x: number;
  y: number;
  /** Where the focus returns to. */
  from: HTMLElement | null;
}

const opened = signal<OpenMenu | null>(null);

export function openMenu(subject: Subject | null | undefined, place: { x: number; y: number }): void {
  if (!subject) return;
  opened.value = { subject, ...place, from: document.activeElement as HTMLElement | null };
}

/** Opens the menu below an element: for keys and for `⋯`. */
export function openMenuAt(subject: Subject | null | undefined, element: Element): void {
  const box = element.getBoundingClientRect();
  openMenu(subject, { x: box.left + Math.min(box.width, 24), y: box.bottom });
}

/** Whether a key asks for the menu. */
export function isMenuKey(event: KeyboardEvent): boolean {
  return event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey);
}

/** Takes a right click for us. The browser's own event of the menu key, which has no pointer, comes after its keydown. */
export function isRightClick(event: MouseEvent): boolean {
  event.preventDefault();
  return event.button === 2;
}

/** The handlers of an element that has a menu. */
export function menuHandlers(subject: () => Subject | null) {
  return {
    onContextMenu: (event: MouseEvent) => {
      if (isRightClick(event)) openMenu(subject(), { x: event.clientX, y: event.clientY });
    },
    onKeyDown: (event: KeyboardEvent) => {
      if (!isMenuKey(event)) return;
      event.preventDefault();
      event.stopPropagation();
      openMenuAt(subject(), event.currentTarget as Element);
    },
  };
}

/** The button of the row that is selected or under the pointer. Keys have Shift+F10 instead. */
export function MoreButton({ subject, style }: { subject: Subject; style?: { [name: string]: string } }) {
  return (
    <button type="button" class="more" tabIndex={-1} aria-label={`Actions for ${shown(subject.name)}`} aria-haspopup="menu" title="Actions (right click, Shift+F10)" style={style}
      onPointerDown={(event) => event.preventDefault()} onClick={(event) => { event.stopPropagation(); openMenuAt(subject, event.currentTarget); }} />
  );
}

/** A button with a menu of the files that a diagram can be saved as. */
export function SaveMenu({ name, actions }: { name: string; actions: { name: string; run: () => void }[] }) {
  return <button type="button" class="quiet" aria-haspopup="menu" title={`Save: ${name}`} onClick={(event) => openMenuAt({ name, actions, isOwn: true }, event.currentTarget)}>save…</button>;
}

export function ContextMenu() {
  const open = opened.value;
  return open ? <MenuOf key={`${open.x} ${open.y}`} open={open} /> : null;
}

function MenuOf({ open }: { open: OpenMenu }) {
  const list = useRef<HTMLUListElement>(null);
  const [place, setPlace] = useState({ left: open.x, top: open.y });
  const actions = actionsOf(open.subject);
  const close = (returns: boolean) => {
    opened.value = null;
    if (returns && open.from?.isConnected) open.from.focus();
  };
  const items = () => [...list.current!.querySelectorAll<HTMLElement>("[role=menuitem]")];
  useLayoutEffect(() => {
    const box = list.current!.getBoundingClientRect();
    setPlace({ left: Math.max(4, Math.min(open.x, innerWidth - box.width - 4)), top: Math.max(4, Math.min(open.y, innerHeight - box.height - 4)) });
    items()[0]?.focus();
  }, []);
  useEffect(() => {
    const outside = (event: Event) => { if (!list.current?.contains(event.target as Node)) close(false); };
    const gone = () => close(false);
    document.addEventListener("pointerdown", outside, true);
    window.addEventListener("resize", gone);
    window.addEventListener("popstate", gone);
    return () => {
      document.removeEventListener("pointerdown", outside, true);
      window.removeEventListener("resize", gone);
      window.removeEventListener("popstate", gone);
    };
  }, []);
  const run = (action: Action) => {
    close(true);
    action.run();
  };
  const keys = (event: KeyboardEvent) => {
    const all = items();
    const now = all.indexOf(document.activeElement as HTMLElement);
    if (event.key === "ArrowDown") all[(now + 1) % all.length]?.focus();
    else if (event.key === "ArrowUp") all[(now - 1 + all.length) % all.length]?.focus();
    else if (event.key === "Home") all[0]?.focus();
    else if (event.key === "End") all[all.length - 1]?.focus();
    else if (event.key === "Escape" || event.key === "Tab") close(true);
    else if (event.key === "Enter" || event.key === " ") run(actions[now]);
    else if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) all.slice(now + 1).concat(all).find((item) => item.textContent!.toLowerCase().startsWith(event.key.toLowerCase()))?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <ul class="popup menu" ref={list} role="menu" aria-label={`Actions for ${shown(open.subject.name)}`} style={{ left: `${place.left}px`, top: `${place.top}px` }} onKeyDown={keys} onContextMenu={(event) => event.preventDefault()}>
      <li class="menu-title" role="presentation" title={clean(open.subject.name)}>{shown(open.subject.name)}</li>
      {actions.map((action) => (
        <li key={action.name} role="menuitem" class={action.begins ? "begins" : ""} tabIndex={-1} title={action.hint} aria-keyshortcuts={action.key} onClick={() => run(action)}>{action.name}{action.key && <kbd aria-hidden="true">{action.key}</kbd>}</li>
      ))}
    </ul>
  );
}
