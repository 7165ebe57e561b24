import type { AgentStatus, StopMode } from '@muster/sdk';
import { useCallback, useRef, useState } from 'react';
import { Button } from '../parts/button.tsx';
import { useDismiss } from '../parts/dialog.tsx';
import { fieldProblem, Problem } from '../parts/problem.tsx';
import { useCommand } from './use-command.ts';
import './stop-menu.css';

/**
 * Stops the turn that is on the screen, and no later one: the menu keeps the number of the run that it was opened for,
 * and the service refuses any other.
 */
export function StopMenu({ status }: { readonly status: AgentStatus }) {
  const { agentId, run } = status;
  const [runId, setRunId] = useState<string | null>(null);
  const ref = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = useCallback(() => {
    setRunId(null);
    // What had the focus in it is gone.
    if (ref.current?.contains(document.activeElement)) button.current?.focus();
  }, []);
  useDismiss(ref, runId !== null, close);
  const stop = useCommand(agentId, (client, turn: { runId: string; mode: StopMode }) =>
    client.stopTurn(agentId, turn),
  );
  const isLive = run !== null && run.state !== 'ENDED';
  if (!isLive && runId === null) return null;

  const isOver = runId !== null && (!isLive || run.runId !== runId);
  const isStopping = isLive && run.state === 'STOPPING';
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
        {isStopping ? 'Stopping …' : 'Stop'}
      </Button>
      {runId !== null && (
        <section className="stop-panel" aria-label={`Stop run ${runId}`}>
          {isOver && !stop.isError && <p>Run {runId} has ended. There is nothing to stop.</p>}
          {stop.isError && <StopProblem error={stop.error} runId={runId} />}
          <Button
            disabled={isOver || isStopping || stop.isPending}
            onClick={() => send('STOP_TURN_MODE_INTERRUPT')}
          >
            Interrupt
          </Button>
          <p>
            {isStopping
              ? 'It was told to, and comes to rest.'
              : 'Lets the turn come to rest, with its cost and its last words. Then the queue goes on.'}
          </p>
          <Button
            look="danger"
            disabled={isOver || stop.isPending}
            onClick={() => send('STOP_TURN_MODE_KILL')}
          >
            Kill the turn
          </Button>
          <p>At once: what it did not yet report is lost. The agent itself lives on.</p>
        </section>
      )}
    </div>
  );
}

/** The service tells a turn that is over from other refusals by the field. */
function StopProblem({ error, runId }: { readonly error: unknown; readonly runId: string }) {
  const refusal = fieldProblem(error, 'runId');
  if (refusal === undefined) return <Problem error={error} />;
  return <Problem error={new Error(`Run ${runId} had already ended: ${refusal}. Nothing was stopped.`)} />;
}
