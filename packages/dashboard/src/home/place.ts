/** Where a reader was in the list. It is kept with the entry of the browser's history, so that "back" leads there. */
export interface Place {
  readonly scrollTop: number;
  /** The page of the agent that the marker was on. */
  readonly marked: string | null;
}

export function keptPlace(): Place | null {
  const { place } = (history.state ?? {}) as { place?: Partial<Place> };
  if (typeof place?.scrollTop !== 'number') return null;
  return { scrollTop: place.scrollTop, marked: typeof place.marked === 'string' ? place.marked : null };
}

export const keepPlace = (place: Place): void => history.replaceState({ ...history.state, place }, '');
