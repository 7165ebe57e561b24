import { useOutage } from '../live/connection.ts';
import { useNow } from '../parts/times.tsx';
import './connection-banner.css';

/** Says that the page shows how things were, while the service is away. It comes back by itself. */
export function ConnectionBanner() {
  const away = useOutage();
  return (
    <div role="status" aria-live="polite">
      {away && <AwayNotice sinceMs={away.sinceMs} />}
    </div>
  );
}

function AwayNotice({ sinceMs }: { readonly sinceMs: number }) {
  const seconds = Math.max(0, Math.round((useNow() - sinceMs) / 1000));
  return (
    <p className="connection-banner">
      <strong>The service is away.</strong> This is how things were{' '}
      <span aria-hidden="true">{seconds < 2 ? 'a moment' : `${seconds} s`} ago</span>. The page tries again by
      itself.
    </p>
  );
}
