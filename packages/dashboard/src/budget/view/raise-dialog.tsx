import type { AgentId } from '@muster/sdk';
import type { AgentBudget } from '@muster/sdk/contract';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/field.tsx';
import { amountProblem } from '../../parts/model/amount.ts';
import { fieldProblem, Problem } from '../../parts/problem.tsx';
import { ReasonField } from '../../session/reason-field.tsx';
import { useClient, useSignedIn } from '../../session/session.ts';
import { amountsText, mayRaise } from '../model/budget.ts';

interface RaiseButtonProps {
  readonly budget: AgentBudget;
  /** What continues when the budget is raised. */
  readonly effect: ReactNode;
  readonly children?: ReactNode;
}

/** Only for those who may raise the budget. */
export function RaiseButton({ budget, effect, children = 'Raise' }: RaiseButtonProps) {
  const { caller } = useSignedIn();
  const [isOpen, setOpen] = useState(false);
  if (!mayRaise(caller, budget)) return null;
  const { name, agentId } = budget;
  return (
    <>
      <Button onClick={() => setOpen(true)}>
        {children}
        <span className="visually-hidden"> {name}</span>
      </Button>
      {isOpen && (
        <AmountDialog {...{ name, agentId, effect }} budget={budget} onClose={() => setOpen(false)} />
      )}
    </>
  );
}

interface AmountDialogProps {
  readonly name: string;
  /** Null: a budget of the catalog. */
  readonly agentId: AgentId | null;
  /** Null: the agent has no budget of its own yet. */
  readonly budget: AgentBudget | null;
  readonly effect: ReactNode;
  readonly onClose: () => void;
}

/** Asks for the new amount of a budget. */
export function AmountDialog({ name, agentId, budget, effect, onClose }: AmountDialogProps) {
  const [amount, setAmount] = useState(budget ? String(budget.amountUsd) : '');
  const [reason, setReason] = useState('');
  const [isTouched, setTouched] = useState(false);
  const { save, error, isPending } = useSetAmount(name, agentId, onClose);
  const field = agentId ? 'budgetUsd' : 'payload.amountUsd';
  const problem = amountProblem(amount);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTouched(true);
    if (problem === undefined) save({ amountUsd: Number(amount), reason });
  };
  const fieldError = (isTouched ? problem : undefined) ?? fieldProblem(error, field);
  return (
    <Dialog title={budget ? `Raise budget ${name}` : `Set a budget for ${name}`} onClose={onClose}>
      <form className="stack" onSubmit={submit} noValidate>
        <p>{effect}</p>
        {fieldProblem(error, field) === undefined && <Problem error={error} />}
        <TextField
          label="Amount in USD"
          hint={
            budget
              ? `Now ${amountsText(budget)}.`
              : 'The most that the agent and all agents below it may spend.'
          }
          error={fieldError}
          inputMode="decimal"
          value={amount}
          onChange={setAmount}
          onFocus={(event) => event.target.select()}
          isCode
          data-autofocus
        />
        {!agentId && <ReasonField value={reason} onChange={setReason} error={error} />}
        <DialogActions>
          {agentId && budget && (
            <Button disabled={isPending} onClick={() => save({ amountUsd: null, reason })}>
              Remove budget
            </Button>
          )}
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={isPending}>
            {isPending ? 'Saving …' : budget ? 'Raise budget' : 'Set budget'}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

interface NewAmount {
  /** Null removes the budget of an agent. */
  readonly amountUsd: number | null;
  readonly reason: string;
}

function useSetAmount(name: string, agentId: AgentId | null, onSaved: () => void) {
  const client = useClient();
  const queries = useQueryClient();
  // Saved over the generation that was current when the dialog opened.
  const stored = useQuery({
    queryKey: ['resource', 'budget', name],
    enabled: agentId === null,
    queryFn: ({ signal }) => client.catalog.read('budget', name, { signal }),
  });
  const generation = stored.data?.generation ?? '0';
  const { mutate, error, isPending } = useMutation({
    mutationFn: async ({ amountUsd, reason }: NewAmount): Promise<void> => {
      if (agentId) await client.setBudget(agentId, amountUsd);
      else if (amountUsd !== null) {
        const settings = { updateMask: 'amountUsd', ifGenerationMatch: generation, justification: reason };
        await client.catalog.write('budget', name, { amountUsd }, settings);
      }
      onSaved();
    },
    // The budget is part of the status and of lists.
    onSettled: () => void queries.invalidateQueries(),
  });
  return { save: mutate, error: error ?? stored.error, isPending: isPending || stored.isFetching };
}
