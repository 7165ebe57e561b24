import { type FormEvent, type ReactNode, useState } from 'react';
import { useFleet } from '../../live/fleet.ts';
import { attentionOf, isSeen } from '../../live/model/attention.ts';
import { StatusIcon } from '../../live/status-icon.tsx';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/field.tsx';
import { plural, unpushedNote } from '../../parts/model/text.ts';
import { problemText } from '../../parts/problem.tsx';
import { useSignedIn } from '../../session/session.ts';
import { type BulkAction, type BulkPlan, nameOf, planOf, type Target } from './plan.ts';
import type { Outcome } from './run-each.ts';
import { type BulkRun, useBulkRun } from './use-bulk-run.ts';

interface BulkDialogProps {
  readonly action: BulkAction;
  readonly selected: readonly Target[];
  readonly onClose: (done: readonly string[]) => void;
}

const texts: Readonly<Record<BulkAction, { verb: string; done: string; effect: string }>> = {
  message: {
    verb: 'Message',
    done: 'sent',
    effect: 'Each agent gets this message. An agent in a turn reads it after the turn.',
  },
  stop: {
    verb: 'Stop the turns of',
    done: 'stopping',
    effect: 'Each turn ends cleanly, with its cost and last message. Queued messages run next.',
  },
  label: {
    verb: 'Label',
    done: 'labeled',
    effect: 'Each agent gets the label. Without a value the label is removed.',
  },
  kill: {
    verb: 'Kill',
    done: 'killed',
    effect:
      'These agents and every agent below them end immediately. This can’t be undone. Pushed branches and transcripts stay.',
  },
};

/** Names every agent and says what happens, does it, and reports what became of each. */
export function BulkDialog({ action, selected, onClose }: BulkDialogProps) {
  const fleet = useFleet();
  const { caller } = useSignedIn();
  // As it was confirmed: agents that change meanwhile do not change what the button does.
  const [plan] = useState(() => planOf(action, selected, fleet.entries(), caller));
  const run = useBulkRun(action, plan);
  const { verb, effect } = texts[action];
  const close = () => (run.state === 'running' ? run.stop() : onClose(run.done));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!run.start()) event.currentTarget.querySelector<HTMLElement>('[data-autofocus]')?.focus();
  };
  return (
    <Dialog title={`${verb} ${plural(plan.targets.length, 'agent')}`} onClose={close} isWide>
      <form id="bulk" className="stack" onSubmit={submit}>
        <p>{effect}</p>
        {action === 'kill' && <KillNotes plan={plan} />}
        <Inputs action={action} run={run} />
      </form>
      <TargetList action={action} plan={plan} outcomes={run.outcomes} />
      <p role="status">{run.state !== 'ready' && progressText(run, plan)}</p>
      <DialogActions>
        <Button onClick={close}>{closeTexts[run.state]}</Button>
        {run.state !== 'over' && (
          <Button
            look={action === 'kill' ? 'danger' : 'primary'}
            type="submit"
            form="bulk"
            disabled={run.state === 'running'}
          >
            {`${verb} ${plural(plan.targets.length, 'agent')}`}
          </Button>
        )}
        {run.state === 'over' && run.failed.length > 0 && (
          <Button look="primary" onClick={run.start}>
            Try the failed again
          </Button>
        )}
      </DialogActions>
    </Dialog>
  );
}

const closeTexts = { ready: 'Cancel', running: 'Stop', over: 'Close' } as const;

function progressText({ state, done, failed }: BulkRun, { targets }: BulkPlan): string {
  if (state === 'running') return `${done.length + failed.length} of ${targets.length} …`;
  return failed.length === 0 ? `All ${done.length} done.` : `${done.length} done, ${failed.length} failed.`;
}

function KillNotes({ plan: { targets, below } }: { readonly plan: BulkPlan }) {
  const all = [...targets, ...below];
  const messages = all.reduce((sum, { entry }) => sum + entry.queued, 0);
  const unpushed = all.filter(({ entry }) => unpushedNote(entry.unpushed) !== '').length;
  return (
    <>
      {messages > 0 && <p>{plural(messages, 'undelivered message')} will be cleared.</p>}
      {unpushed > 0 && (
        <p>
          {plural(unpushed, 'agent')} {unpushed === 1 ? 'has' : 'have'} unpushed work. It is kept only in a
          last checkpoint, for 30 days.
        </p>
      )}
    </>
  );
}

function Inputs({ action, run }: { readonly action: BulkAction; readonly run: BulkRun }) {
  const { input, setInput, inputError } = run;
  const isFixed = run.state === 'running';
  if (action === 'message')
    return (
      <TextField
        label="Message"
        rows={4}
        value={input.text}
        error={inputError}
        readOnly={isFixed}
        data-autofocus
        dir="auto"
        onChange={(text) => setInput({ ...input, text })}
      />
    );
  if (action === 'label')
    return (
      <div className="bulk-label wrap">
        <TextField
          label="Label"
          value={input.key}
          error={inputError}
          readOnly={isFixed}
          isCode
          data-autofocus
          onChange={(key) => setInput({ ...input, key })}
        />
        <TextField
          label="Value"
          value={input.value}
          readOnly={isFixed}
          isCode
          onChange={(value) => setInput({ ...input, value })}
        />
      </div>
    );
  return null;
}

interface TargetListProps {
  readonly action: BulkAction;
  readonly plan: BulkPlan;
  readonly outcomes: ReadonlyMap<string, Outcome>;
}

const TargetList = ({ action, plan: { targets, below, left }, outcomes }: TargetListProps) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard.
  <ul className="bulk-list" aria-label="Agents" tabIndex={0}>
    {targets.map((target) => (
      <TargetItem key={target.page} target={target}>
        {outcomeText(outcomes.get(target.page), texts[action].done)}
      </TargetItem>
    ))}
    {below.map((target) => (
      <TargetItem key={target.page} target={target}>
        ends too
      </TargetItem>
    ))}
    {left.map(({ target, why }) => (
      <TargetItem key={target.page} target={target} isLeft>
        left out: {why}
      </TargetItem>
    ))}
  </ul>
);

const outcomeText = (outcome: Outcome | undefined, done: string): string => {
  if (!outcome) return '';
  return outcome.isDone ? done : `failed: ${problemText(outcome.error)}`;
};

interface TargetItemProps {
  readonly target: Target;
  readonly isLeft?: boolean;
  readonly children: ReactNode;
}

const TargetItem = ({ target, isLeft = false, children }: TargetItemProps) => (
  <li className="wrap" data-left={isLeft}>
    <StatusIcon attention={attentionOf(target.entry, isSeen(target.entry))} />
    <strong dir="auto">{nameOf(target)}</strong>
    <span className="secondary">{children}</span>
  </li>
);
