import { type MusterClient, mintId } from '@muster/sdk';
import { useRef, useState } from 'react';
import { reportError, useClient } from '../../session/session.ts';
import { aboveIn, type BulkAction, type BulkPlan, callsOf, type Target } from './plan.ts';
import { type Outcome, runEach } from './run-each.ts';

export interface BulkInput {
  readonly text: string;
  readonly key: string;
  readonly value: string;
}

export interface BulkRun {
  readonly state: 'ready' | 'running' | 'over';
  readonly input: BulkInput;
  readonly setInput: (input: BulkInput) => void;
  readonly inputError: string | undefined;
  readonly outcomes: ReadonlyMap<string, Outcome>;
  /** The pages of the agents. */
  readonly done: readonly string[];
  readonly failed: readonly string[];
  /** Begins, or tries what failed again; false if the input is not complete. */
  readonly start: () => boolean;
  /** What has not begun is not done. */
  readonly stop: () => void;
}

function missingInput(action: BulkAction, { text, key }: BulkInput): string | undefined {
  if (action === 'message' && text.trim() === '') return 'Enter a message.';
  return action === 'label' && key.trim() === '' ? 'Enter the name of a label.' : undefined;
}

/** A message keeps its id, so a second try sends it only once. */
function act(
  client: MusterClient,
  action: BulkAction,
  { entry: { agentId, runCount } }: Target,
  input: BulkInput,
  followUpId: string,
): Promise<unknown> {
  switch (action) {
    case 'message':
      return client.queue(agentId, { description: input.text, followUpId });
    case 'stop':
      return client.stopTurn(agentId, { runId: runCount, mode: 'STOP_TURN_MODE_INTERRUPT' });
    case 'label':
      return client.label(agentId, { [input.key.trim()]: input.value.trim() });
    case 'kill':
      return client.kill(agentId);
  }
}

export function useBulkRun(action: BulkAction, { targets }: BulkPlan): BulkRun {
  const client = useClient();
  const [state, setState] = useState<BulkRun['state']>('ready');
  const [input, setInput] = useState<BulkInput>({ text: '', key: '', value: '' });
  const [inputError, setInputError] = useState<string>();
  const [outcomes, setOutcomes] = useState<ReadonlyMap<string, Outcome>>(new Map());
  const [ids] = useState(() => new Map(targets.map(({ page }) => [page, mintId()])));
  const stopper = useRef<AbortController | null>(null);

  const report = (target: Target, outcome: Outcome): void => {
    if (!outcome.isDone) reportError(outcome.error);
    const pages = new Set([target.page]);
    const together = action === 'kill' ? targets.filter((one) => aboveIn(pages, one) !== undefined) : [];
    setOutcomes(
      (before) => new Map([...before, ...[target, ...together].map(({ page }) => [page, outcome] as const)]),
    );
  };
  const start = (): boolean => {
    const problem = missingInput(action, input);
    setInputError(problem);
    if (problem !== undefined || state === 'running') return problem === undefined;
    const open = targets.filter(({ page }) => outcomes.get(page)?.isDone !== true);
    setOutcomes((before) => new Map([...before].filter(([, { isDone }]) => isDone)));
    setState('running');
    const stopping = new AbortController();
    stopper.current = stopping;
    const one = (target: Target) => act(client, action, target, input, ids.get(target.page) ?? mintId());
    void runEach(callsOf(action, open), one, report, stopping.signal).then(() => setState('over'));
    return true;
  };
  const pagesThat = (isDone: boolean): string[] =>
    targets.map(({ page }) => page).filter((page) => outcomes.get(page)?.isDone === isDone);
  return {
    state,
    input,
    setInput,
    inputError,
    outcomes,
    done: pagesThat(true),
    failed: pagesThat(false),
    start,
    stop: () => stopper.current?.abort(),
  };
}
