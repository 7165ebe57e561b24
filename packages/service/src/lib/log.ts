import pino from 'pino';

export type Log = pino.Logger;

/** One line per event, as JSON, on standard error: standard output belongs to people. */
export const openLog = (level: string): Log => pino({ level, base: null }, pino.destination(2));
