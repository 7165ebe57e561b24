import type { CatalogEntry } from '@muster/sdk';
import type { Kind } from '@muster/sdk/contract';
import { useSearchParams } from 'wouter';
import { summaryOf } from './summary.ts';

type Entry = Pick<CatalogEntry<Readonly<Record<string, unknown>>>, 'kind' | 'name' | 'document'>;

/** The search of the catalog, which stands in the address. */
export function useSearched(): readonly [searched: string, search: (text: string) => void] {
  const [parameters, setParameters] = useSearchParams();
  const search = (text: string) => setParameters(text === '' ? {} : { q: text }, { replace: true });
  return [(parameters.get('q') ?? '').trim(), search];
}

/** Every word of the search is in the name or the summary. */
export function matches({ kind, name, document }: Entry, searched: string): boolean {
  const text = `${name} ${summaryOf(kind as Kind, document)}`.toLowerCase();
  return searched
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
