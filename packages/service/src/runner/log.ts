/** What the runner needs of a log; a pino logger is one. */
export interface RunnerLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export const silentLog: RunnerLog = { info: () => {}, warn: () => {}, error: () => {} };
