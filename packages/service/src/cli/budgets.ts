import { type BudgetState, budgetText, usd } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { usageError } from './errors.ts';

export function addBudgetCommand(program: Command): void {
  const text = 'list budgets; with an agent, show its budgets; with an amount, set its own';
  addCommand(program, 'budget', text, budget)
    .argument('[agent]')
    .argument('[amount]', 'in USD, for the agent and all agents below it; 0 allows nothing')
    .option('--remove', 'remove the own budget of the agent');
}

async function budget(
  invocation: Invocation<Flags<never, 'remove'>>,
  agent?: string,
  amount?: string,
): Promise<void> {
  const { flags, client, output, signal } = invocation;
  if (amount !== undefined && flags.remove) throw usageError('give an amount or --remove, not both');
  if (agent === undefined && flags.remove) throw usageError('name the agent');
  if (agent === undefined) return list(invocation);
  if (amount === undefined && !flags.remove) {
    const { budgets } = await client().status(agent, { signal });
    return output.answer(budgets, () => {
      for (const one of budgets) output.line(`${one.name}: ${budgetText(one)}`);
      if (budgets.length === 0)
        output.note(`no budget limits ${agent}; give it one with muster budget ${agent} AMOUNT`);
    });
  }
  const reply = await client().setBudget(agent, amount === undefined ? null : amountOf(amount), { signal });
  output.answer(reply, () =>
    output.line(
      reply.budgetUsd === null
        ? `removed the budget of ${agent}`
        : `${agent} may spend ${usd(reply.budgetUsd)}`,
    ),
  );
}

/** An amount in USD, with or without the sign. */
export function amountOf(text: string): number {
  const amount = /^\$?\d+(\.\d+)?$/.test(text) ? Number(text.replace('$', '')) : Number.NaN;
  if (!Number.isFinite(amount))
    throw usageError(`expected an amount in USD such as 5 or 0.50; got "${text}"`);
  return amount;
}

async function list({ client, output, signal }: Invocation): Promise<void> {
  const { budgets, more } = await client().budgets({}, { signal });
  if (output.format !== 'table') return output.answer(budgets, () => {});
  await output.table(
    budgets,
    [
      { title: 'BUDGET', of: nameOf, isFlexible: true },
      { title: 'PER', of: ({ window }: BudgetState) => window },
      { title: 'SPENT', of: budgetText, isFlexible: true },
      {
        title: 'WAITING',
        of: ({ waiting }: BudgetState) => (waiting > 0 ? String(waiting) : '–'),
        isRight: true,
      },
    ],
    'no budgets; create one with muster edit budget/NAME, or muster spawn --budget',
  );
  if (more) output.note('there are more budgets of agents');
}

/** Those of the catalog with what they are for. */
const nameOf = ({ name, agentId, workspace, account }: BudgetState): string => {
  if (agentId) return `${agentId.workspace}:${name}`;
  const scope = [workspace && `workspace ${workspace}`, account && `account ${account}`].filter(Boolean);
  return scope.length > 0 ? `${name} (${scope.join(', ')})` : name;
};
