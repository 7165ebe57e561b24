import { agentPage, pathOf } from '@muster/sdk/contract';
import { Link } from 'wouter';
import { ViewSwitch } from '../../parts/button.tsx';
import { TableBox } from '../../parts/list-page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { useSignedIn } from '../../session/session.ts';
import { agentOfRow, valueText } from '../model/names.ts';
import type { SpendView } from '../model/period.ts';
import { useTopAgents } from './queries.ts';
import { AmountHeads, Amounts, UsedNote } from './spend-tables.tsx';

const views = [
  ['agent', 'Each agent'],
  ['root', 'With children'],
] as const;

interface TopAgentsProps {
  readonly view: SpendView;
  /** The cost of all agents. */
  readonly whole: number;
  readonly onChange: (top: SpendView['top']) => void;
}

export function TopAgents({ view, whole, onChange }: TopAgentsProps) {
  const { caller } = useSignedIn();
  const { data, error } = useTopAgents(view);
  const accounts = [...new Set(data?.rows.map(({ keys }) => keys.account ?? ''))];
  return (
    <section className="stack">
      <header className="spend-head wrap">
        <h2>Top agents</h2>
        <ViewSwitch views={views} view={view.top} label="Count" onChoose={onChange} />
      </header>
      <Problem error={error} />
      {data && (
        <TableBox label="Top agents">
          <thead>
            <tr>
              <th scope="col">Agent</th>
              <AmountHeads />
            </tr>
          </thead>
          <tbody>
            {data.rows.map((used) => {
              const agentId = agentOfRow(used, data.top, caller);
              const { account = '', workspace = '' } = used.keys;
              return (
                <tr key={JSON.stringify(used.keys)}>
                  <th scope="row">
                    {agentId ? <Link href={agentPage(agentId)}>{pathOf(agentId)}</Link> : 'Deleted agents'}
                    <UsedNote used={used} about={[workspace, valueText('account', account, accounts)]} />
                  </th>
                  <Amounts used={used} whole={whole} />
                </tr>
              );
            })}
          </tbody>
        </TableBox>
      )}
    </section>
  );
}
