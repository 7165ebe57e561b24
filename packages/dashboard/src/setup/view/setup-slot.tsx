import { lazy, Suspense } from 'react';
import { ErrorBoundary } from '../../parts/problem.tsx';

/** Loaded on demand: once all is done or the list is dismissed, nobody needs it. */
const SetupCard = lazy(async () => ({ default: (await import('./setup-card.tsx')).SetupCard }));

/** What is left to set up. The page works without it. */
export const SetupSlot = () => (
  <ErrorBoundary fallback={null}>
    <Suspense fallback={null}>
      <SetupCard />
    </Suspense>
  </ErrorBoundary>
);
