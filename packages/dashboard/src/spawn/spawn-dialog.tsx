import { pathOf } from '@muster/sdk/contract';
import { useEffect } from 'react';
import { Dialog } from '../parts/dialog.tsx';
import { useSignedIn } from '../session/session.ts';
import { maySpawn, type SpawnPreset } from './open-spawn.ts';
import { SpawnForm } from './spawn-form.tsx';

export function SpawnDialog({
  preset,
  onClose,
}: {
  readonly preset: SpawnPreset;
  readonly onClose: () => void;
}) {
  const { caller } = useSignedIn();
  // Whoever signs in after this one did not open it.
  useEffect(() => onClose, [onClose]);
  const title = preset.parent ? `New agent below ${pathOf(preset.parent)}` : 'New agent';
  return (
    <Dialog title={title} onClose={onClose}>
      {maySpawn(caller) ? (
        <SpawnForm preset={preset} onClose={onClose} />
      ) : (
        <p>
          Your key has the role of a viewer: it may look at agents, and start none. Ask an admin for the key
          of a member.
        </p>
      )}
    </Dialog>
  );
}
