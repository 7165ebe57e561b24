/** Compares output with what a page shows, where `…` matches anything. */

/** Replaces times, ages and column widths, which differ between runs. */
const normalized = (line: string): string =>
  line
    .replace(/\b\d\d:\d\d\b/g, '00:00')
    .replace(/\b\d+[smhd]\b/g, '0s')
    .replace(/\s+/g, ' ')
    .trim();

const patternOf = (shown: string): RegExp => new RegExp(`^${shown.split('…').map(escaped).join('.*')}$`, 's');

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** The lines of the page that are missing in the output. Their order counts; other lines may be in between. */
export function missingLines(shown: string, printed: string): string[] {
  const lines = printed.split('\n').map(normalized);
  let from = 0;
  return shown
    .split('\n')
    .map(normalized)
    .filter((line) => line !== '' && line !== '…')
    .filter((line) => {
      const at = lines.findIndex((one, index) => index >= from && patternOf(line).test(one));
      if (at >= 0) from = at + 1;
      return at < 0;
    });
}

/** All JSON objects and arrays in a text. */
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
      if (depth === 0) values.push(...parsed(text.slice(start, at + 1)));
    }
  }
  return values;
}

/** Other text has brackets too. */
function parsed(text: string): unknown[] {
  try {
    return [JSON.parse(text)];
  } catch {
    return [];
  }
}

/** JSON as shown in a page: `,…` omits fields, and `:…` a value. */
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

/** The first difference between the value and what is shown, or undefined. */
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
