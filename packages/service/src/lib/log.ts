import pino from 'pino';

export type Log = pino.Logger;

/** One line of JSON per event, on standard error: standard output is for people. */
export const openLog = (level: string, fields: object | null = null): Log =>
  pino({ level, base: fields, serializers: { err: errorOf } }, pino.destination(2));

/** Only these fields of an error: a database error refers to its whole client. */
function errorOf(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { message: String(error) };
  const { code } = error as { code?: unknown };
  const cause = error.cause === undefined ? {} : { cause: errorOf(error.cause) };
  return {
    type: error.name,
    message: error.message,
    ...(code !== undefined && { code }),
    stack: error.stack,
    ...cause,
  };
}

/** What the runner needs of a log, so that its tests can pass their own. */
export type RunnerLog = Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>;

export const silentLog: RunnerLog = { info: () => {}, warn: () => {}, error: () => {} };
