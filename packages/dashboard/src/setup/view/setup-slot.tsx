import { lazy, Suspense } from 'react';
import { isAdmin } from '../../live/model/allowed-actions.ts';
import { ErrorBoundary } from '../../parts/problem.tsx';
import { useSignedIn } from '../../session/session.ts';

/** Loaded on demand: once all is done or the list is dismissed, nobody needs it. */
const SetupCard = lazy(async () => ({ default: (await import('./setup-card.tsx')).SetupCard }));

/** For admins, what is left to set up. The page works without it. */
export const SetupSlot = () =>
  isAdmin(useSignedIn().caller) && (
    <ErrorBoundary fallback={null}>
      <Suspense fallback={null}>
        <SetupCard />
      </Suspense>
    </ErrorBoundary>
  );
