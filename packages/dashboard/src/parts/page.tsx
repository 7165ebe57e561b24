import { type ReactNode, useLayoutEffect } from 'react';

/** An empty state: what belongs here, and the first action. `isPage` when it is the whole page. */
export function Empty({
  title,
  isPage = false,
  children,
}: {
  readonly title: string;
  readonly isPage?: boolean;
  readonly children?: ReactNode;
}) {
  const Heading = isPage ? 'h1' : 'h2';
  return (
    <div className="empty">
      <Heading>{title}</Heading>
      {children}
    </div>
  );
}

/** Sets the title of the browser tab. The cleanup of the previous page runs before the next page sets its title. */
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

export const Label = ({ text }: { readonly text: string }) => (
  <span className="label" title={text}>
    {text}
  </span>
);
