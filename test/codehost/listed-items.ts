import type { Subject } from '../../packages/service/src/codehost/host.ts';
import type { Item } from './small-host.ts';

/** Open items with a label, or assigned to somebody by login or number, that something happened to since then. */
export const listedItems = (
  items: readonly Item[],
  type: Subject['type'] | null,
  label: string | null,
  assignee: string | null,
  since: string,
): Item[] =>
  items.filter(
    (item) =>
      (type ?? item.type) === item.type &&
      item.state === 'open' &&
      (label === null || item.labels.includes(label)) &&
      (assignee === null || item.assignees.some(({ login, id }) => [login, String(id)].includes(assignee))) &&
      item.events.some(({ at }) => at >= since),
  );
