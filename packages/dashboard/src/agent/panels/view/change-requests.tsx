import type { AgentStatus, ChangeRequest } from '@muster/sdk';
import { coveredRepo } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link } from 'wouter';
import { mayCommand } from '../../../live/model/allowed-actions.ts';
import {
  checksText,
  countTexts,
  isOpen,
  reviewText,
  stateText,
} from '../../../live/model/change-requests.ts';
import { resourcesQuery } from '../../../live/resources.ts';
import { Button } from '../../../parts/button.tsx';
import { Dialog, DialogActions } from '../../../parts/dialog.tsx';
import { SelectField, TextField } from '../../../parts/field.tsx';
import { Mark } from '../../../parts/page.tsx';
import { fieldProblem, Problem } from '../../../parts/problem.tsx';
import { useClient, useSignedIn } from '../../../session/session.ts';
import { useCommand } from '../../view/use-agent.ts';

/** The change requests of the agent at its code host, and the button that opens one. */
export function ChangeRequests({ status }: { readonly status: AgentStatus }) {
  const { changeRequests } = status;
  return (
    <>
      {changeRequests.length > 0 && (
        <div>
          <h3>Change requests</h3>
          <ul className="lined-list" aria-label="Change requests">
            {changeRequests.map((request) => (
              <Request key={request.name} request={request} />
            ))}
          </ul>
        </div>
      )}
      <OpenRequest status={status} />
    </>
  );
}

function Request({ request }: { readonly request: ChangeRequest }) {
  const { title, repo, number, url, checks, paused, problem } = request;
  const marks = [stateText(request), ...(isOpen(request) ? [checksText(request), reviewText(request)] : [])];
  const counts = countTexts(request);
  return (
    <li className="change-request stack">
      <p>
        {/^https?:\/\//i.test(url) ? (
          <a href={url} target="_blank" rel="noreferrer noopener">
            {title || 'Untitled'}
          </a>
        ) : (
          title
        )}{' '}
        <small>
          {repo}#{number}
        </small>
      </p>
      <p className="wrap change-request-marks">
        {marks.map(([text, tone]) => (
          <Mark key={text} tone={tone}>
            {text}
          </Mark>
        ))}
      </p>
      {checks.state === 'FAILING' && checks.failing.length > 0 && isOpen(request) && (
        <p className="change-request-failing">Failing: {checks.failing.join(', ')}</p>
      )}
      {problem && <p className="change-request-failing">Problem at the code host: {problem}</p>}
      {counts.length > 0 && <p className="secondary">{counts.join(' · ')}</p>}
      {paused && (
        <p>Paused: it reached its limit of rounds or of failed checks. Send the agent a message to resume.</p>
      )}
    </li>
  );
}

interface OpenRequestProps {
  readonly status: AgentStatus;
  /** The text of the button. */
  readonly action?: string;
  readonly look?: 'plain' | 'primary';
  /** What to know before the change request is opened. */
  readonly note?: string;
}

/**
 * Opens a change request: offered when the agent has pushed, none is open, and an integration covers one of the
 * repositories. Without such an integration it says so.
 */
export function OpenRequest({
  status,
  action = 'Open change request',
  look = 'plain',
  note = '',
}: OpenRequestProps) {
  const [isAsking, setAsking] = useState(false);
  const [isLater, setLater] = useState(false);
  const covered = useCoveredRepos(status);
  if (covered === null) return null;
  if (covered.length === 0) return <NoIntegration repos={status.repos} />;
  return (
    <div className="open-request-action stack">
      {isLater && (
        <p role="status">The code host has not answered yet. The change request opens when it does.</p>
      )}
      <Button look={look} onClick={() => setAsking(true)}>
        {action}
      </Button>
      {isAsking && (
        <OpenRequestDialog
          status={status}
          repos={covered}
          note={note}
          onClose={() => setAsking(false)}
          onOpened={(isOpened) => {
            setLater(!isOpened);
            setAsking(false);
          }}
        />
      )}
    </div>
  );
}

/** The repositories that an integration can open a change request in; null while that is not known, or none is to be opened. */
function useCoveredRepos({ agentId, repos, branch, changeRequests }: AgentStatus): readonly string[] | null {
  const { caller } = useSignedIn();
  const mayOpen = mayCommand(caller, agentId) && branch !== '' && !changeRequests.some(isOpen);
  const { data } = useQuery({ ...resourcesQuery(useClient(), 'integration'), enabled: mayOpen });
  if (!mayOpen || !data) return null;
  const usable = data.filter(({ document }) => document.changeRequests !== 'off');
  return repos.filter((repo) => usable.some(({ document }) => coveredRepo(document, repo) !== null));
}

const NoIntegration = ({ repos }: { readonly repos: readonly string[] }) => (
  <p className="secondary">
    {repos.length === 0
      ? 'The agent has no repository at a code host, so no change request can be opened. '
      : `No integration opens change requests for ${repos.join(', ')}. `}
    <Link href="/catalog/integration">Integrations</Link>
  </p>
);

interface OpenRequestDialogProps {
  readonly status: AgentStatus;
  readonly repos: readonly string[];
  readonly note: string;
  readonly onClose: () => void;
  /** False if the host has not answered yet. */
  readonly onOpened: (isOpened: boolean) => void;
}

function OpenRequestDialog({ status, repos, note, onClose, onOpened }: OpenRequestDialogProps) {
  const { agentId } = status;
  const [repo, setRepo] = useState(status.repos.length > 1 ? (repos[0] ?? '') : '');
  const [title, setTitle] = useState('');
  const [description, setDescription] = useState('');
  const [isDraft, setDraft] = useState(false);
  const { mutate, error, isPending } = useCommand(agentId, (client) =>
    client.openChangeRequest(agentId, {
      ...(repo !== '' && { repo }),
      ...(title.trim() !== '' && { title: title.trim() }),
      ...(description.trim() !== '' && { description: description.trim() }),
      draft: isDraft,
    }),
  );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!isPending) mutate(undefined, { onSuccess: ({ changeRequest }) => onOpened(changeRequest !== null) });
  };
  return (
    <Dialog title="Open change request" onClose={onClose}>
      <form className="open-request stack" onSubmit={submit}>
        <Problem error={error} />
        {note !== '' && <p>{note}</p>}
        {repos.length > 1 && (
          <SelectField
            label="Repository"
            error={fieldProblem(error, 'repo')}
            value={repo}
            options={repos.map((url) => [url, url])}
            onChange={setRepo}
          />
        )}
        <TextField
          label="Title"
          hint="Leave empty to use the first line of the agent's response."
          error={fieldProblem(error, 'title')}
          value={title}
          maxLength={256}
          onChange={setTitle}
          data-autofocus
        />
        <TextField
          label="Description"
          hint="Leave empty to use the agent's response."
          error={fieldProblem(error, 'description')}
          rows={5}
          value={description}
          onChange={setDescription}
        />
        <label className="check-field">
          <input type="checkbox" checked={isDraft} onChange={(event) => setDraft(event.target.checked)} />
          Draft
        </label>
        <SubmitActions isPending={isPending} onCancel={onClose} />
      </form>
    </Dialog>
  );
}

function SubmitActions({
  isPending,
  onCancel,
}: {
  readonly isPending: boolean;
  readonly onCancel: () => void;
}) {
  return (
    <DialogActions>
      <Button onClick={onCancel}>Cancel</Button>
      <Button type="submit" look="primary" disabled={isPending}>
        {isPending ? 'Opening …' : 'Open change request'}
      </Button>
    </DialogActions>
  );
}
