import { useResources } from '../../live/resources.ts';
import { Button } from '../../parts/button.tsx';
import { useSignedIn } from '../../session/session.ts';
import { maySpawn, openSpawn } from '../../spawn/open-spawn.ts';
import { firstMessage } from '../model/setup.ts';

/** Opens the dialog with a first message that can't do harm. */
export function AgentStep({ workspace }: { readonly workspace: string }) {
  const { caller } = useSignedIn();
  const workspaces = useResources('workspace');
  if (!maySpawn(caller)) return <p>Members and admins start agents. Your key is for reading.</p>;
  const named = workspaces.find(({ document }) => (document.repos?.length ?? 0) > 0)?.name ?? '';
  const chosen = workspace || named;
  return (
    <>
      <p>
        Suggested first message: <q>{firstMessage}</q>
      </p>
      <div>
        <Button
          look="primary"
          onClick={() =>
            openSpawn({ description: firstMessage, ...(chosen !== '' && { workspace: chosen }) })
          }
        >
          Start first agent
        </Button>
      </div>
    </>
  );
}
