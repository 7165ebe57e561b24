import { useSyncExternalStore } from 'react';
import { useTranscript } from './transcript-context.ts';

/** Whether something is unfolded, and what the reader does to it; its name is its own in the transcript. */
export function useFold(name: string): readonly [isOpen: boolean, toggle: () => void] {
  const { folds, keepPlace } = useTranscript();
  const isOpen = useSyncExternalStore(folds.subscribe, () => folds.isOpen(name));
  const toggle = () => {
    keepPlace();
    folds.set(name, !isOpen);
  };
  return [isOpen, toggle];
}
