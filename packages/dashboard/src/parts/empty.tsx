import type { ReactNode } from 'react';
import './empty.css';

/** A place where nothing is yet, and what one does to have something there. It may be all that a page has to say. */
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
