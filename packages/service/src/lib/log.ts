import pino from 'pino';

export type Log = pino.Logger;

/** One line per event, as JSON, on standard error: standard output belongs to people. */
export const openLog = (level: string): Log =>
  pino({ level, base: null, serializers: { err: errorOf } }, pino.destination(2));

/** What an error says of itself, and nothing that hangs on it: a database error drags its whole client along. */
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
export interface RunnerLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export const silentLog: RunnerLog = { info: () => {}, warn: () => {}, error: () => {} };
