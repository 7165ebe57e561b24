import { type RefObject, useLayoutEffect, useState } from 'react';
import { Follower } from './follower.ts';
import type { TimelineWindow } from './timeline-window.ts';

export interface Following {
  readonly follower: Follower | null;
  /** Since which entry the reader does not go along with what comes; null while he does. */
  readonly awaySince: number | null;
}

/** Whether the reader is at the end and stays there. */
export function useFollower(scroller: RefObject<HTMLElement | null>, window: TimelineWindow): Following {
  const [follower, setFollower] = useState<Follower | null>(null);
  const [awaySince, setAwaySince] = useState<number | null>(null);
  useLayoutEffect(() => {
    if (!scroller.current) return;
    const isEndHere = () => window.view().isAtEnd;
    const made = new Follower(scroller.current, isEndHere, () => {
      window.isFollowed = made.isFollowing;
      setAwaySince((since) => (made.isAlong ? null : (since ?? window.view().newest)));
    });
    setFollower(made);
    return made.attach();
  }, [scroller, window]);
  return { follower, awaySince };
}
