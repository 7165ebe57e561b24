import { useCallback, useEffect, useState } from 'react';

export interface EntryTarget {
  readonly sequence: number;
}

/** The entry that the address names, as `#e123`: a new object each time that somebody goes there. */
export function useEntryTarget(isLinked: boolean): readonly [target: EntryTarget | null, forget: () => void] {
  const [target, setTarget] = useState(() => (isLinked ? targetOfAddress() : null));
  useEffect(() => {
    if (!isLinked) return;
    const onHashChange = () => setTarget(targetOfAddress());
    addEventListener('hashchange', onHashChange);
    return () => removeEventListener('hashchange', onHashChange);
  }, [isLinked]);
  /** The reader has left the entry; a reload should not bring it back. */
  const forget = useCallback(() => {
    setTarget(null);
    if (isLinked && targetOfAddress())
      history.replaceState(history.state, '', location.pathname + location.search);
  }, [isLinked]);
  return [target, forget];
}

function targetOfAddress(): EntryTarget | null {
  const [, digits] = /^#e(\d{1,15})$/.exec(location.hash) ?? [];
  return digits === undefined ? null : { sequence: Number(digits) };
}
