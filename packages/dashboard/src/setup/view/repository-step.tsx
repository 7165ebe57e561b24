import type { AgentStatus } from '@muster/sdk';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { Link } from 'wouter';
import { isAdmin } from '../../live/model/allowed-actions.ts';
import { Button } from '../../parts/button.tsx';
import { TextField } from '../../parts/field.tsx';
import { Problem } from '../../parts/problem.tsx';
import { useClient, useSignedIn } from '../../session/session.ts';
import { type RepositoryProblem, type RepositoryState, repositoryState } from '../model/repository.ts';
import { checkRepository, endCheck, lastCheck } from './check-repository.ts';

const checkKey = ['setup', 'repository'];
const lookMs = 1_000;
const waitsForPerson = ({ phaseReason }: AgentStatus): boolean => phaseReason === 'BLOCKED';

export interface RepositoryCheck {
  readonly last: AgentStatus | null;
  readonly state: RepositoryState | null;
  /** The workspace that was found to work; empty if it is not known. */
  readonly workspace: string;
}

/** The last check. One that succeeded has said all it has to say: its agent is deleted. */
export function useRepositoryCheck(): RepositoryCheck {
  const client = useClient();
  const { caller } = useSignedIn();
  const queries = useQueryClient();
  const [workspace, setWorkspace] = useState('');
  const ended = useRef('');
  const { data = null } = useQuery({
    queryKey: checkKey,
    enabled: isAdmin(caller),
    queryFn: ({ signal }) => lastCheck(client, signal),
    refetchInterval: ({ state }) => (state.data && !waitsForPerson(state.data) ? lookMs : false),
  });
  const state = data && repositoryState(data);
  useEffect(() => {
    if (!data || state?.type !== 'readable' || ended.current === data.createdAt) return;
    ended.current = data.createdAt;
    setWorkspace(data.agentId.workspace);
    void endCheck(client, data)
      .catch(() => {})
      .then(() => queries.invalidateQueries({ queryKey: ['setup'] }));
  }, [client, queries, data, state?.type]);
  return { last: data, state, workspace };
}

/** Names a repository. Muster writes the workspace and clones it once, as for every agent. */
export function RepositoryStep({ check: { last, state, workspace } }: { readonly check: RepositoryCheck }) {
  const client = useClient();
  const { caller } = useSignedIn();
  const queries = useQueryClient();
  const [repository, setRepository] = useState('');
  const { mutate, error, isPending } = useMutation({
    mutationFn: () => checkRepository(client, repository.trim(), last),
    onSettled: () => queries.invalidateQueries({ queryKey: ['setup'] }),
  });
  if (!isAdmin(caller))
    return <p>Workspaces are for admins to write. Ask an admin to add your repository.</p>;
  const isChecking = isPending || state?.type === 'checking';
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!isChecking && repository.trim() !== '') mutate();
  };
  return (
    <>
      <form className="setup-form" onSubmit={submit}>
        <TextField
          label="Repository"
          hint="An https or ssh address, or a path on the runner’s machine."
          value={repository}
          onChange={setRepository}
          placeholder="https://github.com/acme/shop.git"
          isCode
        />
        <Button type="submit" look="primary" disabled={isChecking || repository.trim() === ''}>
          {isChecking ? 'Checking …' : 'Check and add'}
        </Button>
      </form>
      <Problem error={error} />
      <div role="status">
        {state?.type === 'checking' && <p>{state.text}</p>}
        {state?.type === 'problem' && !isPending && <ProblemText problem={state.problem} />}
        {state === null && workspace !== '' && (
          <p>
            The repository can be read. Its workspace is{' '}
            <Link href={`/catalog/workspace/${encodeURIComponent(workspace)}`}>{workspace}</Link>.
          </p>
        )}
      </div>
    </>
  );
}

const ProblemText = ({
  problem: { title, advice, message, needsCredentials },
}: {
  readonly problem: RepositoryProblem;
}) => (
  <div className="setup-problem stack">
    <p>
      <strong>{title}.</strong> {advice}
    </p>
    <p className="setup-said" dir="auto">
      {message}
    </p>
    {needsCredentials && (
      <p>
        <Link href="/catalog/integration">Set up an integration</Link>
      </p>
    )}
  </div>
);
