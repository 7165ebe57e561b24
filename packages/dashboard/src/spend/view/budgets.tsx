import { agentPage, type BudgetState } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { byUrgency, isWarned, mayRaise, scopeText } from '../../budget/model/budget.ts';
import { BudgetItem } from '../../budget/view/budget-item.tsx';
import { RaiseButton } from '../../budget/view/raise-dialog.tsx';
import { Button } from '../../parts/button.tsx';
import { plural } from '../../parts/model/text.ts';
import { Mark } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { useSignedIn } from '../../session/session.ts';

const pollMs = 10_000;
const firstBudgets = 5;

/** The budgets of the catalog and of live agents, the most urgent first. */
export function Budgets() {
  const { client, caller } = useSignedIn();
  const [showsAll, setShowsAll] = useState(false);
  const { data, error } = useQuery({
    queryKey: ['budgets'],
    refetchInterval: pollMs,
    queryFn: ({ signal }) => client.budgets({}, { signal }),
    select: ({ budgets, more }) => ({ budgets: byUrgency(budgets), more }),
  });
  const budgets = data?.budgets ?? [];
  const shown = showsAll ? budgets : budgets.slice(0, firstBudgets);
  return (
    <section className="spend-budgets stack" aria-label="Budgets">
      <header className="spend-head wrap">
        <h2>Budgets</h2>
        {mayRaise(caller, { agentId: null }) && (
          <Link className="button button-plain" href="/catalog/budget">
            {budgets.some(({ agentId }) => agentId === null) ? 'Edit budgets' : 'New budget'}
          </Link>
        )}
      </header>
      <Problem error={error} />
      {data && budgets.length === 0 && (
        <p className="secondary">No budgets. A budget limits what agents may spend.</p>
      )}
      <ul className="stack">
        {shown.map((budget) => (
          <Budget key={`${budget.agentId ? agentPage(budget.agentId) : budget.name}`} budget={budget} />
        ))}
      </ul>
      {shown.length < budgets.length && (
        <Button onClick={() => setShowsAll(true)}>
          Show all {budgets.length.toLocaleString()}
          {data?.more && '+'}
        </Button>
      )}
    </section>
  );
}

function Budget({ budget }: { readonly budget: BudgetState }) {
  const { name, agentId, waiting } = budget;
  const href = agentId ? agentPage(agentId) : `/catalog/budget/${encodeURIComponent(name)}`;
  const waits = `${plural(waiting, 'agent')} ${waiting === 1 ? 'waits' : 'wait'} for this budget`;
  return (
    <BudgetItem budget={budget} name={<Link href={href}>{name}</Link>}>
      <span className="secondary">{scopeText(budget)}</span>
      {waiting > 0 ? (
        <Mark tone="bad">{waits}</Mark>
      ) : (
        isWarned(budget) && <Mark tone="warning">nearly spent</Mark>
      )}
      <RaiseButton
        budget={budget}
        effect={
          waiting > 0
            ? `${waits} and ${waiting === 1 ? 'continues' : 'continue'} automatically when enough is left.`
            : 'No agent waits for this budget.'
        }
      />
    </BudgetItem>
  );
}
