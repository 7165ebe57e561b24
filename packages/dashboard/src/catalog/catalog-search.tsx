import { useRef } from 'react';
import { SearchField } from '../parts/field.tsx';
import { useShortcuts } from '../parts/shortcuts.ts';
import { useSearched } from './searched.ts';

/** Narrows a list while one types; `/` leads here, and Enter into the list. */
export function CatalogSearch({ label }: { readonly label: string }) {
  const [searched, search] = useSearched();
  const field = useRef<HTMLInputElement>(null);
  useShortcuts({ '/': () => field.current?.focus() });
  const enterList = () => document.querySelector<HTMLElement>('.resource-list a')?.focus();
  return (
    <SearchField
      label={label}
      placeholder={`${label} by name or summary`}
      text={searched}
      field={field}
      onSearch={search}
      onLeave={enterList}
    />
  );
}
