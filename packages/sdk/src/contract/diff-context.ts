/** A hunk of a unified diff: where it begins in both files, and its lines with their signs. */
interface Hunk {
  readonly header: string;
  readonly oldStart: number;
  readonly newStart: number;
  readonly heading: string;
  readonly lines: readonly string[];
}

const hunkHeader = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/s;
const headingLength = 80;

/**
 * A unified diff with at most this number of unchanged lines around each change: a hunk of it may become several. Never longer than
 * the diff: if the headers of many small hunks take more than the lines that they replace, it stays as it is.
 */
export function diffWithContext(diff: string, context: number): string {
  const lines = diff.split('\n');
  const kept: string[] = [];
  for (let at = 0; at < lines.length; ) {
    const header = lines[at] as string;
    const found = header.startsWith('@@') ? hunkHeader.exec(header) : null;
    if (!found) {
      kept.push(header);
      at += 1;
      continue;
    }
    const [, oldStart, oldCount = '1', newStart, newCount = '1', heading = ''] = found;
    const end = endOfHunk(lines, at + 1, Number(oldCount), Number(newCount));
    const hunk: Hunk = {
      header,
      heading,
      // A side without lines names the line before it.
      oldStart: Number(oldStart) + (oldCount === '0' ? 1 : 0),
      newStart: Number(newStart) + (newCount === '0' ? 1 : 0),
      lines: lines.slice(at + 1, end),
    };
    for (const line of narrowed(hunk, context)) kept.push(line);
    at = end;
  }
  const text = kept.join('\n');
  return text.length <= diff.length ? text : diff;
}

/** The index after the last line of a hunk. A diff that was cut off ends earlier. */
function endOfHunk(lines: readonly string[], start: number, oldCount: number, newCount: number): number {
  let [before, after, at] = [oldCount, newCount, start];
  for (; at < lines.length; at++) {
    const sign = (lines[at] as string)[0];
    if (sign === '\\') continue;
    if ((before <= 0 && after <= 0) || (sign !== ' ' && sign !== '-' && sign !== '+')) break;
    if (sign !== '+') before -= 1;
    if (sign !== '-') after -= 1;
  }
  return at;
}

/** The lines of a hunk that are near a change, as one hunk or several. */
function narrowed(hunk: Hunk, context: number): readonly string[] {
  const { header, lines } = hunk;
  const isNear = nearChanges(lines, context);
  if (!isNear.includes(0)) return [header, ...lines];
  const kept: string[] = [];
  let [oldLine, newLine, heading] = [hunk.oldStart, hunk.newStart, hunk.heading];
  for (let at = 0; at < lines.length; ) {
    let end = at;
    while (end < lines.length && isNear[end] === isNear[at]) end += 1;
    const group = lines.slice(at, end);
    const oldCount = group.filter((line) => /^[ -]/.test(line)).length;
    const newCount = group.filter((line) => /^[ +]/.test(line)).length;
    if (isNear[at]) {
      kept.push(`@@ -${range(oldLine, oldCount)} +${range(newLine, newCount)} @@${heading && ` ${heading}`}`);
      for (const line of group) kept.push(line);
    }
    oldLine += oldCount;
    newLine += newCount;
    heading = headingIn(group) ?? heading;
    at = end;
  }
  return kept;
}

/** 1 for each line that is changed or at most `context` lines away from a change. */
function nearChanges(lines: readonly string[], context: number): Uint8Array {
  const near = new Uint8Array(lines.length);
  for (const [at, line] of lines.entries())
    if (line.startsWith('+') || line.startsWith('-'))
      near.fill(1, Math.max(0, at - context), at + context + 1);
  // It belongs to the line before it.
  for (const [at, line] of lines.entries())
    if (line.startsWith('\\') && at > 0) near[at] = near[at - 1] as number;
  return near;
}

const range = (start: number, count: number): string => {
  const first = count === 0 ? start - 1 : start;
  return count === 1 ? String(first) : `${first},${count}`;
};

/** As git does: the last line before a hunk that begins with a letter. */
const headingIn = (before: readonly string[]): string | undefined =>
  before
    .findLast((line) => /^[ -][A-Za-z_$]/.test(line))
    ?.slice(1, 1 + headingLength)
    .trimEnd();
