import { type ReactNode, useRef } from 'react';
import { Button } from './button.tsx';
import { SearchField } from './field.tsx';
import { useShortcuts } from './page.tsx';
import { Problem } from './problem.tsx';
import './list-page.css';

interface ListPageProps {
  readonly title: string;
  /** What the search is for, such as `people`. */
  readonly things: string;
  readonly text: string;
  readonly onSearch: (text: string) => void;
  /** False where nothing could be found: without a search, too, the list is empty. */
  readonly hasSearch?: boolean;
  readonly list: {
    readonly data: unknown;
    readonly error: unknown;
    readonly refetch: () => unknown;
    readonly hasNextPage: boolean;
    readonly fetchNextPage: () => unknown;
    readonly isFetchingNextPage: boolean;
  };
  readonly children: ReactNode;
}

/** A page with one list that is searched and read page by page: its head, and what leads to more. */
export function ListPage({ title, things, text, onSearch, hasSearch = true, list, children }: ListPageProps) {
  const field = useRef<HTMLInputElement>(null);
  useShortcuts({ '/': () => field.current?.focus() });
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = list;
  const label = `Search ${things}`;
  return (
    <div className="list-page stack">
      <header className="list-head wrap">
        <h1>{title}</h1>
        {hasSearch && (
          <SearchField
            {...{ field, text, label, onSearch }}
            placeholder={label}
            onLeave={() => field.current?.blur()}
          />
        )}
      </header>
      <Problem error={error}>
        <Button onClick={() => void refetch()}>Try again</Button>
      </Problem>
      {!data && !error && <p className="page-loading">Loading …</p>}
      {children}
      {hasNextPage && (
        <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          {isFetchingNextPage ? 'Loading …' : 'Show more'}
        </Button>
      )}
    </div>
  );
}

interface TableBoxProps {
  readonly label: string;
  /** In a narrow window each row becomes a card; its cells are named by `data-label`. */
  readonly stacks?: boolean;
  readonly children: ReactNode;
}

/** A table that scrolls by itself: by keyboard only if it gets the focus. */
export const TableBox = ({ label, stacks = false, children }: TableBoxProps) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard.
  <section className="table-box" data-stacks={stacks} tabIndex={0} aria-label={label}>
    <table>{children}</table>
  </section>
);

/** Names and values, one below the other. */
export const Facts = ({ children }: { readonly children: ReactNode }) => (
  <dl className="fact-list">{children}</dl>
);
