// Names come from programs, and programs may be hostile. They only ever become text; this takes from them what would disturb the text around them.

import { signal } from "@preact/signals";
import { choice } from "./choice";

const DISTURBING = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;
const ALL_DISTURBING = new RegExp(DISTURBING.source, "g");

/** The forms in which names are shown. Those of one answer differ from each other; names of several answers may share one, and are shown whole then. */
const FORMS = new Map<string, string>();
const NAMES = new Map<string, string>();
/** How often a name got another form than the one that may be on the screen. */
export const changedForms = signal(0);

/** Keeps the forms of an answer's names. Of two forms of a name, the longer one tells it from other names. */
export function keepShortNames(answer: unknown): void {
  const names = (answer as { short_names?: { [name: string]: string } } | null)?.short_names;
  let changes = 0;
  const show = (name: string, form: string) => {
    if (FORMS.has(name) && FORMS.get(name) !== form) changes += 1;
    FORMS.set(name, form);
  };
  for (const [name, form] of Object.entries(names ?? {})) {
    const known = FORMS.get(name);
    if (known !== undefined && known.length >= form.length) continue;
    const other = NAMES.get(form);
    if (other === undefined || other === name) {
      NAMES.set(form, name);
      show(name, form);
      continue;
    }
    if (FORMS.get(other) === form) show(other, other);
    show(name, name);
  }
  if (changes > 0) changedForms.value += changes;
}

/** A function's name as it is shown: its short form, unless names are wanted as they are. */
export function shown(name: string): string {
  // A component that reads the signal draws its names again when their forms change.
  void changedForms.value;
  return clean(choice.value.raw_names ? name : FORMS.get(name) ?? name);
}

/** Control characters and those that turn the direction of writing become `�`. */
export function clean(name: string): string {
  return DISTURBING.test(name) ? name.replace(ALL_DISTURBING, "\ufffd") : name;
}
