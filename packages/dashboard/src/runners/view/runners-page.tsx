import { agentPage, type ListedRunner, pathOf } from '@muster/sdk/contract';
import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { isAdmin } from '../../live/model/allowed-actions.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { Facts, ListPage } from '../../parts/list-page.tsx';
import { Empty, Mark, useTitle } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { Age, Countdown } from '../../parts/times.tsx';
import { useInstallation } from '../../session/installation.ts';
import { useClient, useSignedIn } from '../../session/session.ts';
import { accountState, byPool, diskText, drainable, slotsText, stateOf } from '../model/runner.ts';
import '../runners.css';

const pollMs = 5_000;
const queryKey = ['runners'];
const pageSize = 50;

/** The live runners: what they run, what they can take, their machines and their accounts at providers. */
export function RunnersPage() {
  const client = useClient();
  useTitle('Runners · Muster');
  const [text, setText] = useState('');
  const list = useInfiniteQuery({
    queryKey: [...queryKey, text],
    initialPageParam: '',
    refetchInterval: pollMs,
    queryFn: ({ pageParam, signal }) =>
      client.listRunners({ text, pageSize, pageToken: pageParam }, { signal }),
    getNextPageParam: ({ nextPageToken }) => nextPageToken || undefined,
    placeholderData: (before) => before,
  });
  const runners = list.data?.pages.flatMap((page) => page.runners);
  const isEmpty = runners?.length === 0;
  return (
    <ListPage
      title="Runners"
      things="runners"
      hasSearch={text !== '' || !isEmpty}
      {...{ text, list }}
      onSearch={setText}
    >
      {isEmpty && text !== '' && <p className="secondary">No runner has “{text}” in its name.</p>}
      {isEmpty && text === '' && <NoRunner />}
      {byPool(runners ?? []).map(([pool, some]) => (
        <Pool key={pool} pool={pool} runners={some} />
      ))}
    </ListPage>
  );
}

function NoRunner() {
  const command = useInstallation()?.command ?? 'muster';
  return (
    <Empty title="No runner">
      <p>
        Agents wait until a runner takes them. Start one with <code>{command} runner</code> and a token of the
        role runner.
      </p>
    </Empty>
  );
}

interface PoolProps {
  readonly pool: string;
  readonly runners: readonly ListedRunner[];
}

const Pool = ({ pool, runners }: PoolProps) => (
  <section className="runner-pool stack" aria-label={`Pool ${pool}`}>
    <header className="runners-head wrap">
      <h2>
        Pool <Link href={`/catalog/pool/${encodeURIComponent(pool)}`}>{pool}</Link>
      </h2>
      <DrainButton pool={pool} runners={drainable(runners)}>
        {runners.length === 1 ? 'Drain pool' : `Drain all ${runners.length} listed`}
      </DrainButton>
    </header>
    <ul className="runners stack">
      {runners.map((runner) => (
        <Runner key={`${runner.isOwn} ${runner.name}`} runner={runner} />
      ))}
    </ul>
  </section>
);

function Runner({ runner }: { readonly runner: ListedRunner }) {
  const [state, tone, why] = stateOf(runner);
  const { name, isOwn, sandboxed, rehearses, version, versionWarning, system, since, lastPollAt } = runner;
  return (
    <li className="runner stack">
      <header className="runners-head wrap">
        <h3>{name}</h3>
        <Mark tone={tone} title={why}>
          {state}
        </Mark>
        {!sandboxed && <Mark tone="warning">no sandbox</Mark>}
        {rehearses && <Mark tone="quiet">rehearses every model</Mark>}
        {isOwn && <span className="secondary">part of the service</span>}
        <DrainButton pool={runner.pool} runners={drainable([runner])}>
          Drain
        </DrainButton>
        {runner.draining && !isOwn && <UndrainButton runner={runner} />}
      </header>
      <Facts>
        <dt>Runs</dt>
        <dd>
          <p>{slotsText(runner)}</p>
          <Runs runner={runner} />
        </dd>
        <dt>Disk</dt>
        <dd>{diskText(runner)}</dd>
        <dt>Machine</dt>
        <dd>{system || 'not reported'}</dd>
        <dt>Version</dt>
        <dd>
          {version || 'not reported'}
          {versionWarning && <p className="runner-warning">{versionWarning}</p>}
        </dd>
        <dt>Here for</dt>
        <dd>
          <Age since={since} />, last poll <Age since={lastPollAt} /> ago
        </dd>
        <Accounts accounts={runner.accounts} />
      </Facts>
    </li>
  );
}

function Runs({ runner: { runs, runCount } }: { readonly runner: ListedRunner }) {
  if (runs.length === 0) return null;
  return (
    <ul className="runner-runs">
      {runs.map(({ agentId, runId, startedAt }) => (
        <li key={`${agentPage(agentId)} ${runId}`}>
          <Link href={agentPage(agentId)}>{pathOf(agentId)}</Link>{' '}
          <span className="secondary">
            for <Age since={startedAt} />
          </span>
        </li>
      ))}
      {runCount > runs.length && <li className="secondary">and {runCount - runs.length} more</li>}
    </ul>
  );
}

const Accounts = ({ accounts }: Pick<ListedRunner, 'accounts'>) =>
  accounts.length > 0 && (
    <>
      <dt>Accounts</dt>
      <dd>
        <ul className="runner-runs">
          {accounts.map((account) => {
            const [text, tone] = accountState(account);
            return (
              <li key={account.account}>
                <code>{account.account}</code> <Mark tone={tone}>{text}</Mark>{' '}
                {account.state === 'PAUSED' && <PausedUntil at={account.pausedUntil} />}
                {account.error && <p className="runner-warning">{account.error}</p>}
              </li>
            );
          })}
        </ul>
      </dd>
    </>
  );

const PausedUntil = ({ at }: { readonly at: string | null }) => (
  <span className="secondary">
    {at === null ? 'until its credentials are changed' : <Countdown to={at} />}
  </span>
);

interface DrainProps extends PoolProps {
  readonly children: string;
}

/** Only admins may drain, and only runners that are not those of the service. */
function DrainButton({ pool, runners, children }: DrainProps) {
  const { caller } = useSignedIn();
  const [isOpen, setOpen] = useState(false);
  if (runners.length === 0 || !isAdmin(caller)) return null;
  return (
    <>
      <Button onClick={() => setOpen(true)}>{children}</Button>
      {isOpen && <DrainDialog pool={pool} runners={runners} onClose={() => setOpen(false)} />}
    </>
  );
}

function DrainDialog({ pool, runners, onClose }: PoolProps & { readonly onClose: () => void }) {
  const client = useClient();
  const queries = useQueryClient();
  const names = runners.map(({ name }) => name);
  const drain = useMutation({
    mutationFn: () => client.drainRunners(pool, names),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey });
      onClose();
    },
  });
  return (
    <Dialog title={`Drain ${names.length === 1 ? names[0] : `${names.length} runners`}?`} onClose={onClose}>
      <p>
        {names.length > 1 && `${names.join(', ')}: `}
        It takes no more runs. Its runs end or are handed back, with what they have not pushed, and another
        runner of the pool continues them. Then its process ends.
      </p>
      <Problem error={drain.error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" disabled={drain.isPending} onClick={() => drain.mutate()}>
          {drain.isPending ? 'Draining …' : 'Drain'}
        </Button>
      </DialogActions>
    </Dialog>
  );
}

/** Only a runner that has handed back nothing takes runs again. */
function UndrainButton({ runner: { pool, name } }: { readonly runner: ListedRunner }) {
  const { client, caller } = useSignedIn();
  const queries = useQueryClient();
  const { mutate, data, error, isPending } = useMutation({
    mutationFn: () => client.undrainRunners(pool, [name]),
    onSuccess: () => queries.invalidateQueries({ queryKey }),
  });
  if (!isAdmin(caller)) return null;
  const [undrained] = data?.runners ?? [];
  return (
    <>
      <Button disabled={isPending} aria-label={`Undrain ${name}`} onClick={() => mutate()}>
        Undrain
      </Button>
      <Problem error={error} />
      {undrained?.draining && (
        <p className="runner-warning" role="status">
          It has begun to hand back its runs, and ends. Start it again.
        </p>
      )}
    </>
  );
}
