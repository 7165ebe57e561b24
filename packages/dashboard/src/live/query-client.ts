import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query';
import { noteRefusal } from '../session/session.ts';

/** The sdk client retries by itself, by rules that fit each operation; here nothing is tried again. */
export const queryClientFor = (): QueryClient =>
  new QueryClient({
    queryCache: new QueryCache({ onError: noteRefusal }),
    mutationCache: new MutationCache({ onError: noteRefusal }),
    defaultOptions: {
      queries: { retry: false, staleTime: 1_000, refetchOnWindowFocus: true },
      mutations: { retry: false },
    },
  });
