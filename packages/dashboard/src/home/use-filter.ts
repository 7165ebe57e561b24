import { useCallback, useMemo } from 'react';
import { useLocation, useSearch } from 'wouter';
import { addressOf, type Filter, filterOf, noFilter } from './filter.ts';

export interface FilterControl {
  readonly filter: Filter;
  /** The address of the list under this filter, which names it. */
  readonly address: string;
  /** A new entry of the history, so that "back" takes it away again; or, while one types, the same. */
  readonly change: (change: Partial<Filter>, how?: 'push' | 'replace') => void;
  readonly clear: () => void;
}

/** What the list shows is in the address alone: a reload, "back" and a copied address show the same. */
export function useFilter(): FilterControl {
  const search = useSearch();
  const [, navigate] = useLocation();
  const filter = useMemo(() => filterOf(search), [search]);
  const change = useCallback<FilterControl['change']>(
    (changed, how = 'push') => navigate(addressOf({ ...filter, ...changed }), { replace: how === 'replace' }),
    [filter, navigate],
  );
  const clear = useCallback(() => change({ ...noFilter, ended: filter.ended }), [change, filter.ended]);
  return { filter, address: addressOf(filter), change, clear };
}
