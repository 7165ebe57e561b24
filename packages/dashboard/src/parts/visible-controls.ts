const directions = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Characters that change the order in which text is shown, written out: code must read as it is run. */
export const visibleControls = (text: string): string =>
  text.replace(directions, (one) => `[U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}]`);
