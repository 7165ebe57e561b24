import { useMemo, useSyncExternalStore } from 'react';
import type { Sizes } from './layout.ts';

/** The heights that agent-row.css and agent-list.css give, in the reader's own size of type. */
const wideRem: Sizes = { row: 3.25, header: 2.25 };
const narrowRem: Sizes = { row: 3.75, header: 2.25 };

const narrow = () => matchMedia('(max-width: 44rem)');

function subscribe(listener: () => void): () => void {
  const query = narrow();
  query.addEventListener('change', listener);
  return () => query.removeEventListener('change', listener);
}

export function useSizes(): Sizes {
  const isNarrow = useSyncExternalStore(subscribe, () => narrow().matches);
  return useMemo(() => {
    const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
    const { row, header } = isNarrow ? narrowRem : wideRem;
    return { row: row * rem, header: header * rem };
  }, [isNarrow]);
}
