/** One Server-Sent Event. */
export interface ServerSentEvent {
  /** The event's id, or that of the last event that had one. */
  readonly id: string;
  readonly type: string;
  readonly data: string;
}

/** Parses a `text/event-stream` that arrives in chunks. Comments are ignored. */
export class EventParser {
  #rest = '';
  #id = '';
  #type = '';
  #data: string[] = [];

  /** Returns the events that this chunk completes. */
  push(chunk: string): ServerSentEvent[] {
    const text = this.#rest + chunk;
    // A CR at the end may be the first half of a CRLF.
    const whole = text.endsWith('\r') ? text.slice(0, -1) : text;
    const lines = whole.split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? '') + text.slice(whole.length);
    return lines.flatMap((line) => this.#take(line) ?? []);
  }

  #take(line: string): ServerSentEvent | undefined {
    if (line === '') return this.#complete();
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') this.#data.push(value);
    if (field === 'event') this.#type = value;
    if (field === 'id' && !value.includes('\0')) this.#id = value;
    return undefined;
  }

  #complete(): ServerSentEvent | undefined {
    const event = { id: this.#id, type: this.#type || 'message', data: this.#data.join('\n') };
    const isEmpty = this.#data.length === 0;
    this.#type = '';
    this.#data = [];
    return isEmpty ? undefined : event;
  }
}
