/** Whether what a page shows is what was there: `…` in it stands for anything, everything else is meant as it is. */

/** Times, ages and the width of columns differ from one day to the next. */
const settled = (line: string): string =>
  line
    .replace(/\b\d\d:\d\d\b/g, '00:00')
    .replace(/\b\d+[smhd]\b/g, '0s')
    .replace(/\s+/g, ' ')
    .trim();

const patternOf = (shown: string): RegExp => new RegExp(`^${shown.split('…').map(escaped).join('.*')}$`, 's');

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** The lines of the page that are missing in what was printed; they have to come in this order, others in between. */
export function missingLines(shown: string, printed: string): string[] {
  const lines = printed.split('\n').map(settled);
  let from = 0;
  return shown
    .split('\n')
    .map(settled)
    .filter((line) => line !== '' && line !== '…')
    .filter((line) => {
      const at = lines.findIndex((one, index) => index >= from && patternOf(line).test(one));
      if (at >= 0) from = at + 1;
      return at < 0;
    });
}

/** The JSON values that stand in a text one behind the other, whatever else is around them. */
export function jsonValuesIn(text: string): unknown[] {
  const values: unknown[] = [];
  let depth = 0;
  let start = 0;
  let isText = false;
  for (let at = 0; at < text.length; at += 1) {
    const next = text[at];
    if (isText) {
      if (next === '\\') at += 1;
      else if (next === '"') isText = false;
    } else if (next === '"') {
      isText = depth > 0;
    } else if (next === '{' || next === '[') {
      if (depth === 0) start = at;
      depth += 1;
    } else if ((next === '}' || next === ']') && depth > 0) {
      depth -= 1;
      if (depth === 0) values.push(JSON.parse(text.slice(start, at + 1)));
    }
  }
  return values;
}

/** JSON as a page shows it: `,…` leaves fields out, and `:…` a value. */
export function shownJson(text: string): unknown[] {
  let isText = false;
  let plain = '';
  for (let at = 0; at < text.length; at += 1) {
    const next = text[at] ?? '';
    if (next === '\\') {
      plain += text.slice(at, at + 2);
      at += 1;
      continue;
    }
    if (next === '"') isText = !isText;
    if (next !== '…' || isText) plain += next;
    else if (plain.trimEnd().endsWith(':')) plain += '"…"';
    else plain = plain.trimEnd().replace(/,$/, '');
  }
  return jsonValuesIn(plain);
}

/** Where the value is not as shown: the first place that differs, or undefined. */
export function difference(shown: unknown, value: unknown, at = '$'): string | undefined {
  if (shown === '…') return value === undefined ? `${at} is missing` : undefined;
  if (typeof shown === 'string' && typeof value === 'string')
    return patternOf(shown).test(value) ? undefined : `${at} is ${JSON.stringify(value)}`;
  if (Array.isArray(shown) && Array.isArray(value)) {
    const lengths = shown.length > value.length ? `${at} has ${value.length} entries` : undefined;
    return lengths ?? first(shown.map((item, index) => difference(item, value[index], `${at}[${index}]`)));
  }
  if (isRecord(shown) && isRecord(value))
    return first(Object.entries(shown).map(([name, item]) => difference(item, value[name], `${at}.${name}`)));
  return Object.is(shown, value) ? undefined : `${at} is ${JSON.stringify(value)}`;
}

const first = (all: (string | undefined)[]): string | undefined => all.find((one) => one !== undefined);
const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
