// Names come from programs, and programs may be hostile. They only ever become text; this takes from them what would disturb the text around them.

const DISTURBING = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;
const ALL_DISTURBING = new RegExp(DISTURBING.source, "g");

/** Control characters and those that turn the direction of writing become `�`. */
export function clean(name: string): string {
  return DISTURBING.test(name) ? name.replace(ALL_DISTURBING, "\ufffd") : name;
}
