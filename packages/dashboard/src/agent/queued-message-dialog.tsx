import type { AgentId, PendingFollowUp } from '@muster/sdk';
import { agentPage, type FollowUp } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { Dialog } from '../parts/dialog.tsx';
import { Markdown } from '../parts/markdown.tsx';
import { Problem } from '../parts/problem.tsx';
import { useClient } from '../session/session.ts';

/** One message with its whole text, of which the status of its agent has only the beginning. */
export function QueuedMessageDialog({
  agentId,
  followUpId,
  onClose,
}: {
  readonly agentId: AgentId;
  readonly followUpId: string;
  readonly onClose: () => void;
}) {
  const client = useClient();
  const { data, error } = useQuery({
    queryKey: ['follow-up', agentPage(agentId), followUpId],
    queryFn: ({ signal }) => client.followUp(agentId, followUpId, { signal }),
  });
  return (
    <Dialog title="Queued message" onClose={onClose} isWide>
      <Problem error={error} />
      {!data && !error && <p>Loading …</p>}
      {data && (
        <>
          <Markdown text={data.description} />
          <p className="queued-facts">{settingWords(data).join(', ')}</p>
          {data.outputSchema !== '' && (
            // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
            <pre className="queued-schema" tabIndex={0}>
              <code>{data.outputSchema}</code>
            </pre>
          )}
        </>
      )}
    </Dialog>
  );
}

/** The settings that a message brings. */
export const settingWords = (followUp: PendingFollowUp | FollowUp): string[] =>
  [
    followUp.agent && `persona ${followUp.agent}`,
    followUp.model && `model ${followUp.model}`,
    followUp.reasoningEffort && `effort ${followUp.reasoningEffort}`,
    followUp.serviceTier && `tier ${followUp.serviceTier}`,
    followUp.fastMode !== null && `fast mode ${followUp.fastMode ? 'on' : 'off'}`,
    followUp.outputSchema && 'an output schema',
  ].filter((words): words is string => Boolean(words));
