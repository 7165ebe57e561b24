import { readdirSync, readFileSync } from 'node:fs';

/** Linux counts in hundredths of a second. */
const tickMs = 10;

interface Counted {
  readonly pid: number;
  readonly parent: number;
  readonly ms: number;
  /** Of its children that have ended. */
  readonly endedMs: number;
}

/** The processor time of a process, and of those that it and its children have started. */
export function processorMs(pid: number): { readonly own: number; readonly children: number } {
  const all = readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? counted(Number(name)) : []));
  const under = (parent: number): Counted[] =>
    all.filter((one) => one.parent === parent).flatMap((one) => [one, ...under(one.pid)]);
  const self = all.find((one) => one.pid === pid);
  const children = under(pid).reduce((sum, { ms, endedMs }) => sum + ms + endedMs, self?.endedMs ?? 0);
  return { own: self?.ms ?? 0, children };
}

function counted(pid: number): Counted[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [user = 0, system = 0, ended = 0, endedSystem = 0] = fields.slice(11, 15).map(Number);
    const [ms, endedMs] = [(user + system) * tickMs, (ended + endedSystem) * tickMs];
    return [{ pid, parent: Number(fields[1]), ms, endedMs }];
  } catch {
    return [];
  }
}
