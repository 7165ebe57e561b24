import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { useShortcuts } from '../../parts/page.tsx';
import type { Section } from '../model/arrange.ts';
import { rangeBetween } from '../model/selected-range.ts';

export interface Selection {
  readonly pages: ReadonlySet<string>;
  /** With `isRange`, all rows from the last one that was toggled up to this one. */
  readonly toggle: (page: string, isRange: boolean) => void;
  readonly setAll: (pages: readonly string[], isSelected: boolean) => void;
  readonly clear: () => void;
}

const none: ReadonlySet<string> = new Set();

/** The selected agents. Another filter shows other agents, so it ends the selection. */
export function useSelection(sections: readonly Section[], url: string): Selection {
  const [pages, setPages] = useState(none);
  const anchor = useRef<string | null>(null);
  const current = useRef(sections);
  current.current = sections;

  const setAll = useCallback((some: readonly string[], isSelected: boolean) => {
    setPages((before) => {
      const after = new Set(before);
      for (const page of some) isSelected ? after.add(page) : after.delete(page);
      return after.size === 0 ? none : after;
    });
  }, []);
  const toggle = useCallback(
    (page: string, isRange: boolean) => {
      const range = isRange ? rangeBetween(current.current, anchor.current, page) : null;
      anchor.current = page;
      if (range) return setAll(range, true);
      setPages((before) => {
        const after = new Set(before);
        if (!after.delete(page)) after.add(page);
        return after.size === 0 ? none : after;
      });
    },
    [setAll],
  );
  const clear = useCallback(() => setPages(none), []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the filter is in the URL.
  useEffect(() => clear(), [clear, url]);
  useShortcuts({ Escape: clear });
  return useMemo(() => ({ pages, toggle, setAll, clear }), [pages, toggle, setAll, clear]);
}
