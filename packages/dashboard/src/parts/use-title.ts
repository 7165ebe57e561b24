import { useLayoutEffect } from 'react';

/** What the tab is called while this is on the page. The page that comes next has its say after the one that leaves. */
export function useTitle(title: string): void {
  useLayoutEffect(() => {
    document.title = title;
  }, [title]);
  useLayoutEffect(
    () => () => {
      document.title = 'Muster';
    },
    [],
  );
}
