import type { AgentStatus, StopMode } from '@muster/sdk';
import { canReopen, canRetry, isTerminal } from '@muster/sdk/contract';
import { type RefObject, useCallback, useMemo, useRef, useState } from 'react';
import { tightest } from '../../budget/model/budget.ts';
import { RaiseButton } from '../../budget/view/raise-dialog.tsx';
import { mayCommand } from '../../live/model/allowed-actions.ts';
import { Button } from '../../parts/button.tsx';
import { useDismiss } from '../../parts/dialog.tsx';
import { Markdown } from '../../parts/markdown.tsx';
import { useShortcuts } from '../../parts/page.tsx';
import { fieldProblem, Problem } from '../../parts/problem.tsx';
import { useSignedIn } from '../../session/session.ts';
import { maySpawn, openSpawn } from '../../spawn/open-spawn.ts';
import { isLiveRun, readOnlyText } from '../model/status-text.ts';
import { effectOn } from '../panels/view/budgets.tsx';
import { Activity, type StatusProps } from './agent-layout.tsx';
import { presetOf } from './agent-menu.tsx';
import { Composer } from './composer.tsx';
import { Queue, QueueToggle } from './queue.tsx';
import { useCommand } from './use-agent.ts';

interface DockProps {
  readonly status: AgentStatus;
  /** What the timeline has reported as delivered: the status is read a moment later. */
  readonly delivered?: ReadonlySet<string>;
  /** The page shows the question elsewhere. */
  readonly hidesQuestion?: boolean;
  readonly textRef?: RefObject<HTMLTextAreaElement | null>;
  readonly onSent?: () => void;
}

const noneDelivered: ReadonlySet<string> = new Set();

const withoutDelivered = (status: AgentStatus, delivered: ReadonlySet<string>): AgentStatus =>
  status.followUps.some(({ followUpId }) => delivered.has(followUpId))
    ? { ...status, followUps: status.followUps.filter(({ followUpId }) => !delivered.has(followUpId)) }
    : status;

/** Below the transcript: activity, queue, question and message form. */
export function Dock({
  status: stored,
  delivered = noneDelivered,
  hidesQuestion = false,
  ...form
}: DockProps) {
  const status = useMemo(() => withoutDelivered(stored, delivered), [stored, delivered]);
  const { caller } = useSignedIn();
  const may = mayCommand(caller, status.agentId);
  const isEnded = isTerminal(status.phase);
  const isAsking = status.phaseReason === 'QUESTION';
  const ownRef = useRef<HTMLTextAreaElement>(null);
  const { textRef = ownRef, onSent } = form;
  useShortcuts({ m: () => textRef.current?.focus() });
  const [isQueueOpen, setQueueOpen] = useState(false);
  const toggle = (
    <QueueToggle
      followUps={status.followUps}
      isOpen={isQueueOpen}
      onToggle={() => setQueueOpen(!isQueueOpen)}
    />
  );
  return (
    <div className="dock stack">
      {isAsking ? (
        toggle
      ) : (
        <Activity status={status}>
          {toggle}
          {may && <StopMenu status={status} />}
          <RaiseTightest status={status} />
          {may && <ResumeButton status={status} />}
          {isEnded && maySpawn(caller) && (
            <Button onClick={() => openSpawn(presetOf(status))}>Spawn a copy</Button>
          )}
        </Activity>
      )}
      {isQueueOpen && <Queue status={status} mayChange={may && !isEnded} />}
      {isAsking && !hidesQuestion && <Question status={status} />}
      {may && !isEnded && <Composer {...{ status, textRef, onSent }} />}
      {!may && <p className="secondary">{readOnlyText(status.agentId, caller.role)}</p>}
    </div>
  );
}

/** At a spent budget: raises the one that has the least left. Raising does not help where a model has no price. */
function RaiseTightest({ status }: StatusProps) {
  const isSpent = status.phaseReason === 'BUDGET' && status.error?.code !== 'MODEL_UNPRICED';
  const budget = isSpent ? tightest(status.budgets) : undefined;
  return (
    budget && (
      <RaiseButton budget={budget} effect={effectOn(status)}>
        Raise budget
      </RaiseButton>
    )
  );
}

/** The only place that has all of it: the row of the transcript has its first line. */
const Question = ({ status: { needsInput } }: StatusProps) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard.
  <section className="question" aria-label="Question" tabIndex={0}>
    <Markdown text={needsInput || 'The agent gave no question.'} />
  </section>
);

function ResumeButton({ status }: StatusProps) {
  const { agentId, phase } = status;
  const isRetry = canRetry(status);
  const resume = useCommand(agentId, (client) => (isRetry ? client.retry(agentId) : client.reopen(agentId)));
  if (!isRetry && !canReopen(status)) return <Problem error={resume.error} />;
  const retryText = phase === 'PHASE_PENDING' ? 'Retry now' : 'Retry';
  return (
    <>
      <Problem error={resume.error} />
      <Button disabled={resume.isPending} onClick={() => resume.mutate(undefined)}>
        {isRetry ? retryText : 'Reopen'}
      </Button>
    </>
  );
}

/** The menu stops only the run that it was opened for; the service refuses the request for any other run. */
interface StopPanelProps {
  readonly runId: string;
  readonly hasEnded: boolean;
  readonly isStopping: boolean;
  readonly isPending: boolean;
  readonly error: Error | null;
  readonly send: (mode: StopMode) => void;
}

function StopPanel({ runId, hasEnded, isStopping, isPending, error, send }: StopPanelProps) {
  return (
    <section className="stop-panel stack" aria-label={`Stop run ${runId}`}>
      {hasEnded && !error && <p className="secondary">Run {runId} has already ended.</p>}
      {error && <StopProblem error={error} runId={runId} />}
      <Button disabled={hasEnded || isStopping || isPending} onClick={() => send('STOP_TURN_MODE_INTERRUPT')}>
        Interrupt turn
      </Button>
      <p className="secondary">
        {isStopping
          ? 'Interrupt requested.'
          : 'Ends the turn cleanly, with its cost and last message. Queued messages run next.'}
      </p>
      <Button look="danger" disabled={hasEnded || isPending} onClick={() => send('STOP_TURN_MODE_KILL')}>
        Kill turn
      </Button>
      <p className="secondary">
        Ends the turn immediately. Work that was not reported is lost. The agent stays.
      </p>
    </section>
  );
}

function StopMenu({ status }: StatusProps) {
  const { agentId, run } = status;
  const [runId, setRunId] = useState<string | null>(null);
  const ref = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = useCallback(() => {
    setRunId(null);
    // The focused element is removed with the menu.
    if (ref.current?.contains(document.activeElement)) button.current?.focus();
  }, []);
  useDismiss(ref, runId !== null, close);
  const stop = useCommand(agentId, (client, turn: { runId: string; mode: StopMode }) =>
    client.stopTurn(agentId, turn),
  );
  const isLive = isLiveRun(run);
  if (!isLive && runId === null) return null;

  const hasEnded = runId !== null && (!isLive || run?.runId !== runId);
  const isStopping = run?.state === 'STOPPING';
  const send = (mode: StopMode) => runId !== null && stop.mutate({ runId, mode }, { onSuccess: close });
  return (
    <div className="stop-menu" ref={ref}>
      <Button
        ref={button}
        aria-expanded={runId !== null}
        aria-haspopup="true"
        onClick={() => {
          stop.reset();
          setRunId(runId === null && run ? run.runId : null);
        }}
      >
        {isStopping ? 'Stopping …' : 'Stop turn'}
      </Button>
      {runId !== null && (
        <StopPanel {...{ runId, hasEnded, isStopping, send }} isPending={stop.isPending} error={stop.error} />
      )}
    </div>
  );
}

/** The service names the field `runId` when the run is not the current one. */
function StopProblem({ error, runId }: { readonly error: unknown; readonly runId: string }) {
  const reason = fieldProblem(error, 'runId');
  if (reason === undefined) return <Problem error={error} />;
  return <Problem error={new Error(`Nothing was stopped. Run ${runId} has already ended: ${reason}.`)} />;
}
