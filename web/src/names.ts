// Names come from programs, and programs may be hostile. They only ever become text; this takes from them what would disturb the text around them.

import { choice } from "./choice";

const DISTURBING = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;
const ALL_DISTURBING = new RegExp(DISTURBING.source, "g");

/** The short forms of names, as the server's answers had them. A name has the same one in every answer. */
const SHORT = new Map<string, string>();

/** Keeps the short forms of an answer. */
export function keepShortNames(answer: unknown): void {
  const names = (answer as { short_names?: { [name: string]: string } } | null)?.short_names;
  for (const [name, short] of Object.entries(names ?? {})) SHORT.set(name, short);
}

/** A function's name as it is shown: its short form, unless names are wanted as they are. */
export function shown(name: string): string {
  return clean(choice.value.raw_names ? name : SHORT.get(name) ?? name);
}

/** Control characters and those that turn the direction of writing become `�`. */
export function clean(name: string): string {
  return DISTURBING.test(name) ? name.replace(ALL_DISTURBING, "\ufffd") : name;
}
