import { localMs } from '@muster/sdk/contract';

/** Of the name of a schedule, as part of other names. */
export const mostReadable = 90;

/** The date that clocks in the zone show. */
export const dateIn = (zone: string, ms: number): string =>
  new Date(localMs(zone, ms)).toISOString().slice(0, 10);

/** The path of an agent that a schedule spawns, with `{date}` and `{n}` filled in. */
export const spawnPath = (
  path: readonly string[] | undefined,
  schedule: string,
  date: string,
  n: number,
): string[] =>
  (path?.length ? path : [`${schedule.slice(0, mostReadable)}-{n}`]).map((part) =>
    part.replaceAll('{date}', date).replaceAll('{n}', String(n)),
  );
