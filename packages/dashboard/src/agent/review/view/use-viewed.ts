import type { AgentId } from '@muster/sdk';
import { useState } from 'react';
import type { DiffFile } from '../../panels/model/diff-files.ts';
import { contentOf, fileKey, isViewed, storedViewed, storeViewed } from '../model/viewed.ts';
import { useDraftKey } from './use-review.ts';

/** Which files the person has viewed, in this browser. */
export function useViewed(agentId: AgentId) {
  const key = useDraftKey(agentId);
  const [viewed, setViewed] = useState(() => storedViewed(localStorage, key));
  return {
    isViewed: (file: DiffFile) => isViewed(viewed, file),
    setViewed: (file: DiffFile, isNow: boolean) => {
      // Another tab may have stored others.
      const { [fileKey(file)]: _, ...others } = storedViewed(localStorage, key);
      const next = isNow ? { ...others, [fileKey(file)]: contentOf(file) } : others;
      storeViewed(localStorage, key, next);
      setViewed(next);
    },
  };
}
