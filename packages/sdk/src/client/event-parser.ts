/** One Server-Sent Event. */
export interface ServerSentEvent {
  /** Its own, or that of the last event that had one. */
  readonly id: string;
  readonly type: string;
  readonly data: string;
}

/** Reads the text of a `text/event-stream` as it comes, cut anywhere. Comments say nothing and yield nothing. */
export class EventParser {
  #rest = '';
  #id = '';
  #type = '';
  #data: string[] = [];

  /** The events that this piece completes. */
  push(piece: string): ServerSentEvent[] {
    const text = this.#rest + piece;
    // A CR at the very end may be the first half of a CRLF.
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
