import { type ReactNode, useEffect, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { ConfirmDialog } from './confirm-dialog.tsx';

/**
 * Asks before something unsaved is left: by a link, a key, the browser's own buttons. The question of the page is for
 * ways within it; where the page itself ends, only the browser may ask.
 */
export function useLeaveGuard(isUnsaved: boolean): {
  /** While it is open. */
  readonly question: ReactNode;
  /** The next way out is meant: nothing is asked any more. */
  readonly release: () => void;
} {
  const [, navigate] = useLocation();
  const [leave, setLeave] = useState<(() => void) | null>(null);
  const isLeaving = useRef(false);

  useEffect(() => {
    if (!isUnsaved) return;
    const onBeforeUnload = (event: BeforeUnloadEvent) => event.preventDefault();
    const onNavigate = (event: NavigateEvent) => {
      const { sameDocument, url, key } = event.destination;
      const { pathname, search, hash } = new URL(url);
      if (isLeaving.current || !event.cancelable || !sameDocument || pathname === location.pathname) return;
      event.preventDefault();
      const go =
        event.navigationType === 'traverse'
          ? () => void window.navigation.traverseTo(key)
          : () => navigate(`${pathname}${search}${hash}`);
      setLeave(() => () => {
        isLeaving.current = true;
        go();
      });
    };
    // Browsers without it still ask where the page ends.
    const { navigation } = window as { navigation?: Navigation };
    addEventListener('beforeunload', onBeforeUnload);
    navigation?.addEventListener('navigate', onNavigate);
    return () => {
      removeEventListener('beforeunload', onBeforeUnload);
      navigation?.removeEventListener('navigate', onNavigate);
    };
  }, [isUnsaved, navigate]);

  const question = leave && isUnsaved && (
    <ConfirmDialog
      title="Leave without saving?"
      yes="Leave and lose them"
      no="Stay"
      onYes={leave}
      onNo={() => setLeave(null)}
    >
      Your changes are not saved. If you leave, they are gone.
    </ConfirmDialog>
  );
  const release = () => {
    isLeaving.current = true;
  };
  return { question, release };
}
