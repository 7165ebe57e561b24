import { useState, useSyncExternalStore } from 'react';
import { ViewSwitch } from '../../../parts/button.tsx';

/** How a person reads diffs in this browser. */
export interface ReviewOptions {
  readonly layout: 'unified' | 'split';
  /** Null: as it fits the window. */
  readonly wraps: boolean | null;
  readonly ignoresWhitespace: boolean;
}

const storageKey = 'muster.review-options';
const defaults: ReviewOptions = { layout: 'unified', wraps: null, ignoresWhitespace: false };

function storedOptions(): ReviewOptions {
  try {
    const stored = JSON.parse(localStorage.getItem(storageKey) ?? '{}') as Partial<ReviewOptions>;
    return {
      layout: stored.layout === 'split' ? 'split' : 'unified',
      wraps: typeof stored.wraps === 'boolean' ? stored.wraps : null,
      ignoresWhitespace: stored.ignoresWhitespace === true,
    };
  } catch {
    return defaults;
  }
}

const narrow = matchMedia('(max-width: 60rem)');
const subscribeToWidth = (listener: () => void): (() => void) => {
  narrow.addEventListener('change', listener);
  return () => narrow.removeEventListener('change', listener);
};

export function useReviewOptions() {
  const [options, setOptions] = useState(storedOptions);
  const isNarrow = useSyncExternalStore(subscribeToWidth, () => narrow.matches);
  const isSplit = options.layout === 'split' && !isNarrow;
  return {
    options,
    isNarrow,
    isSplit,
    // Both sides of a split diff are always as wide as half of the page.
    isWrapped: isSplit || (options.wraps ?? isNarrow),
    change: (change: Partial<ReviewOptions>) => {
      const next = { ...options, ...change };
      localStorage.setItem(storageKey, JSON.stringify(next));
      setOptions(next);
    },
  };
}

const layouts = [
  ['unified', 'Unified'],
  ['split', 'Split'],
] as const;

export function OptionsBar({
  options,
  isNarrow,
  isSplit,
  isWrapped,
  change,
}: ReturnType<typeof useReviewOptions>) {
  return (
    <div className="review-options wrap">
      {!isNarrow && (
        <ViewSwitch
          label="Layout"
          views={layouts}
          view={options.layout}
          onChoose={(layout) => change({ layout })}
        />
      )}
      <label className="check-field">
        <input
          type="checkbox"
          checked={options.ignoresWhitespace}
          onChange={(event) => change({ ignoresWhitespace: event.target.checked })}
        />
        Ignore whitespace
      </label>
      {!isSplit && (
        <label className="check-field">
          <input
            type="checkbox"
            checked={isWrapped}
            onChange={(event) => change({ wraps: event.target.checked })}
          />
          Wrap lines
        </label>
      )}
    </div>
  );
}
