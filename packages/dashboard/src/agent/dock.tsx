import type { AgentStatus } from '@muster/sdk';
import { isTerminal } from '@muster/sdk/contract';
import { useRef } from 'react';
import { Button } from '../parts/button.tsx';
import { useShortcuts } from '../parts/shortcuts.ts';
import { useSignedIn } from '../session/session.ts';
import { maySpawn, openSpawn } from '../spawn/open-spawn.ts';
import { Activity } from './activity.tsx';
import { Composer } from './composer.tsx';
import { mayCommand } from './may-command.ts';
import { Question } from './question.tsx';
import { Queue } from './queue.tsx';
import { ReopenControl, RetryControl } from './resume-controls.tsx';
import { StopMenu } from './stop-menu.tsx';
import './dock.css';

/** What stands at the foot of the transcript: what the agent does, what waits for it, what it asks, and one's own words. */
export function Dock({ status }: { readonly status: AgentStatus }) {
  const { caller } = useSignedIn();
  const may = mayCommand(caller, status.agentId);
  const isEnded = isTerminal(status.phase);
  const isAsking = status.phaseReason === 'QUESTION';
  const textRef = useRef<HTMLTextAreaElement>(null);
  useShortcuts({ m: () => textRef.current?.focus() });
  return (
    <div className="dock">
      {!isAsking && (
        <Activity status={status}>
          {may && <StopMenu status={status} />}
          {may && <RetryControl status={status} />}
          {may && <ReopenControl status={status} />}
          {isEnded && maySpawn(caller) && (
            <Button onClick={() => openSpawn(presetOf(status))}>Spawn another like it</Button>
          )}
        </Activity>
      )}
      <Queue status={status} mayChange={may && !isEnded} />
      {isAsking && <Question text={status.needsInput} since={status.phaseSince} />}
      {may && !isEnded && <Composer status={status} textRef={textRef} />}
      {!may && <p className="dock-note">You may look, not command.</p>}
    </div>
  );
}

/** Another one with the same orders; its name is taken. */
const presetOf = (status: AgentStatus) => ({
  description: status.description,
  expectedOutput: status.expectedOutput,
  workspace: status.agentId.workspace,
  persona: status.persona,
  model: status.model,
  reasoningEffort: status.reasoningEffort,
  serviceTier: status.serviceTier,
  fastMode: status.fastMode,
  outputSchema: status.outputSchema,
});
