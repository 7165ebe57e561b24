import { limits } from '../contract/limits.ts';
import type { TimelineEntry, TimelinePartial } from '../contract/timeline.ts';

/** A text that an agent is producing, as far as it was received. */
export interface LiveText extends Pick<TimelinePartial, 'key' | 'type' | 'runId' | 'text'> {
  /** Where `text` begins; above 0 its beginning was not received. */
  readonly offset: number;
}

/** The end of a longer text is kept. */
const maxLength = 64 * 1024;

/**
 * Joins the partials of a timeline stream. Give it every partial and every entry: an entry ends the text that it
 * replaces, and the end of a run ends all its texts.
 */
export class LiveTexts {
  #texts = new Map<string, LiveText>();

  /** In the order in which they began. Another array after each change. */
  get all(): readonly LiveText[] {
    return [...this.#texts.values()];
  }

  /** Returns the text as it is now; undefined if it will not be completed. */
  add(partial: TimelinePartial): LiveText | undefined {
    if (partial.text === '') {
      this.#texts.delete(partial.key);
      return undefined;
    }
    const known = this.#texts.get(partial.key);
    const joined = known?.runId === partial.runId ? joinedText(known, partial) : partial;
    const excess = Math.max(0, joined.text.length - maxLength);
    const { key, type, runId } = partial;
    const text = { key, type, runId, offset: joined.offset + excess, text: joined.text.slice(excess) };
    this.#texts.set(key, text);
    for (const oldest of this.#texts.keys()) {
      if (this.#texts.size <= limits.partialTextsPerRun) break;
      this.#texts.delete(oldest);
    }
    return text;
  }

  /** Returns the text that this entry replaces. */
  settle({ type, runId, data }: TimelineEntry): LiveText | undefined {
    if (type === 'RUN_ENDED') {
      for (const [key, text] of this.#texts) if (text.runId === runId) this.#texts.delete(key);
      return undefined;
    }
    const key = typeof data.key === 'string' ? data.key : '';
    const text = this.#texts.get(key);
    this.#texts.delete(key);
    return text;
  }
}

type Span = Pick<LiveText, 'offset' | 'text'>;

/** What was known and a piece, if they meet; otherwise the piece, because something between them is missing. */
function joinedText(known: Span, piece: Span): Span {
  const knownEnd = known.offset + known.text.length;
  const pieceEnd = piece.offset + piece.text.length;
  if (piece.offset > knownEnd || pieceEnd < known.offset) return piece;
  const [first, last] = piece.offset < known.offset ? [piece, known] : [known, piece];
  const firstEnd = first.offset + first.text.length;
  return { offset: first.offset, text: first.text + last.text.slice(firstEnd - last.offset) };
}
