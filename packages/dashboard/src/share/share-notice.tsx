import type { ReactNode } from 'react';
import iconUrl from '../icon.svg';
import './share-notice.css';

/** Instead of an agent: why this link shows none, and what to do about it. */
export const ShareNotice = ({
  title,
  children,
}: {
  readonly title: string;
  readonly children: ReactNode;
}) => (
  <main className="share-notice">
    <img src={iconUrl} alt="Muster" width="40" height="40" />
    <div role="alert">
      <h1>{title}</h1>
      {children}
    </div>
  </main>
);
