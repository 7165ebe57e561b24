import type { AgentId } from '@muster/sdk';
import { createContext, useContext } from 'react';
import type { Folds } from './folds.ts';
import type { RunFacts } from './run-facts.ts';

/** What the rows of one transcript share. */
export interface TranscriptTools {
  readonly agentId: AgentId;
  /** Whether the reader can follow a link to an entry, or to another agent. */
  readonly isLinked: boolean;
  readonly folds: Folds;
  readonly runFacts: RunFacts;
  /** What is on the screen stays where it is, though something on it is about to grow or shrink. */
  readonly keepPlace: () => void;
  /** Looks for the words of a message that was admitted before the first entry at hand. */
  readonly findWords: (followUpId: string) => void;
}

export const TranscriptContext = createContext<TranscriptTools | null>(null);

export function useTranscript(): TranscriptTools {
  const tools = useContext(TranscriptContext);
  if (!tools) throw new Error('there is no transcript around this');
  return tools;
}
