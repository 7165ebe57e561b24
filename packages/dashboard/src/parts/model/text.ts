import type { AgentStatus } from '@muster/sdk';

/** `1 message`, `2 messages`. */
export const plural = (count: number, one: string, more = `${one}s`): string =>
  `${count.toLocaleString('en')} ${count === 1 ? one : more}`;

/** `42s`, `2m 10s`, `1h 05m`, `3d 4h`. */
export function durationText(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const days = Math.floor(seconds / 86_400);
  const hours = Math.floor(seconds / 3600) % 24;
  const minutes = Math.floor(seconds / 60) % 60;
  if (days > 0) return `${days}d ${hours}h`;
  if (hours > 0) return `${hours}h ${twoDigits(minutes)}m`;
  return minutes > 0 ? `${minutes}m ${twoDigits(seconds % 60)}s` : `${seconds}s`;
}

const twoDigits = (value: number): string => String(value).padStart(2, '0');

/** `in 2m 10s`; `now` when the time has passed. */
export const untilText = (ms: number): string =>
  ms <= 0 ? 'now' : `in ${durationText(Math.ceil(ms / 1000) * 1000)}`;

/** `unpushed: 2 commits, 3 files`, and `(not all saved)` if a checkpoint lacks some; empty if everything is pushed. */
export function unpushedNote(unpushed: AgentStatus['unpushed']): string {
  const { commits, files } = unpushed ?? { commits: 0, files: 0 };
  const counts = [commits > 0 && plural(commits, 'commit'), files > 0 && plural(files, 'file')].filter(
    Boolean,
  );
  const isPartial = unpushed?.isSaved === false;
  if (counts.length === 0) return isPartial ? 'work not saved' : '';
  return `unpushed: ${counts.join(', ')}${isPartial ? ' (not all saved)' : ''}`;
}

type Labels = Readonly<Record<string, string>>;

const textsByLabels = new WeakMap<Labels, readonly string[]>();

/** `key=value` of each label, sorted. Labels are replaced and never changed, so the texts are cached. */
export function labelTexts(labels: Labels): readonly string[] {
  const cached = textsByLabels.get(labels);
  if (cached) return cached;
  const texts = Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .sort();
  textsByLabels.set(labels, texts);
  return texts;
}

const directionControls = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Writes out the characters that reorder text: code must read as it runs. */
export const visibleControls = (text: string): string =>
  text.replace(
    directionControls,
    (control) => `[U+${control.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}]`,
  );

/** Deeper values are written on one line: indented, their length would grow with the square of the depth. */
const maxDepth = 100;

/** A value as indented JSON. */
export function jsonText(value: unknown): string {
  try {
    const flat = JSON.stringify(value) ?? '';
    return depthOf(flat) > maxDepth ? flat : (JSON.stringify(value, null, 2) ?? '');
  } catch {
    return String(value);
  }
}

/** Counts brackets in strings too, which can only make the result too high. */
function depthOf(json: string): number {
  let depth = 0;
  let deepest = 0;
  for (const one of json) {
    if (one === '[' || one === '{') deepest = Math.max(deepest, ++depth);
    else if (one === ']' || one === '}') depth--;
  }
  return deepest;
}

const browsers: readonly (readonly [RegExp, string])[] = [
  [/Edg\//, 'Edge'],
  [/OPR\//, 'Opera'],
  [/Firefox\//, 'Firefox'],
  [/Chrome\//, 'Chrome'],
  [/Safari\//, 'Safari'],
];
const systems: readonly (readonly [RegExp, string])[] = [
  [/Android/, 'Android'],
  [/iPhone|iPad/, 'iOS'],
  [/Windows/, 'Windows'],
  [/Mac OS X/, 'macOS'],
  [/Linux/, 'Linux'],
];

/** `Firefox on Linux`. */
export function browserName(userAgent: string): string {
  const found = (names: typeof browsers) => names.find(([form]) => form.test(userAgent))?.[1];
  const system = found(systems);
  return `${found(browsers) ?? 'Unknown browser'}${system === undefined ? '' : ` on ${system}`}`;
}

/** An error of the service as a sentence: a capital, “curly” quotes and a full stop. */
export function sentence(text: string): string {
  const quoted = text.replace(/"([^"\n]*)"/g, '“$1”').trim();
  return `${quoted.charAt(0).toUpperCase()}${quoted.slice(1)}${/[.!?:…]$/.test(quoted) ? '' : '.'}`;
}
