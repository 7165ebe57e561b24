import { signInProviders } from '@muster/sdk';
import type { Installation } from '@muster/sdk/contract';
import { useEffect, useState } from 'react';

let known: Promise<Installation> | undefined;

/** How people run the command line where the service runs; null until it is known. Without an answer, nothing is shown. */
export function useInstallation(): Installation | null {
  const [installation, setInstallation] = useState<Installation | null>(null);
  useEffect(() => {
    known ??= signInProviders(location.origin).then((found) => found.installation);
    known.then(setInstallation, () => {
      known = undefined;
    });
  }, []);
  return installation;
}
