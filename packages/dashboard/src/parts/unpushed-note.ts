import type { AgentStatus } from '@muster/sdk';
import { many } from './many.ts';

/** `unpushed: 2 commits, 3 files`, which is clear even where its end is cut off; empty when everything is pushed. */
export function unpushedNote(unpushed: AgentStatus['unpushed']): string {
  const { commits, files } = unpushed ?? { commits: 0, files: 0 };
  const words = [commits > 0 && many(commits, 'commit'), files > 0 && many(files, 'file')].filter(Boolean);
  return words.length > 0 ? `unpushed: ${words.join(', ')}` : '';
}
