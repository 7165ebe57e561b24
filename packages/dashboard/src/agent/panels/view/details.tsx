import type { AgentStatus } from '@muster/sdk';
import { backendFacts, contextText, reasonRow, thousands } from '@muster/sdk/contract';
import { type FormEvent, type ReactNode, useState } from 'react';
import { mayCommand } from '../../../live/model/allowed-actions.ts';
import { Button, CopyButton } from '../../../parts/button.tsx';
import { Markdown } from '../../../parts/markdown.tsx';
import { ownerKind } from '../../../parts/model/owner.ts';
import { labelTexts } from '../../../parts/model/text.ts';
import { Label } from '../../../parts/page.tsx';
import { Problem } from '../../../parts/problem.tsx';
import { Age, Moment } from '../../../parts/times.tsx';
import { useSignedIn } from '../../../session/session.ts';
import { useCommand } from '../../view/use-agent.ts';
import { Panel, PanelText, useIsLinked } from './panel.tsx';

export function Details({ status }: { readonly status: AgentStatus }) {
  const isLinked = useIsLinked();
  const { error, description, expectedOutput, createdAt, endedAt, dashboardUrl } = status;
  return (
    <Panel
      title="Details"
      summary={
        <>
          spawned <Age since={createdAt} /> ago
        </>
      }
    >
      {error && (
        <div className="details-error stack">
          <p>
            <code>{error.code}</code> {error.message}
          </p>
          <p>{adviceOn(status)}</p>
        </div>
      )}
      {description !== '' && <LongField title="Description" text={description} />}
      {expectedOutput !== '' && <LongField title="Expected output" text={expectedOutput} />}
      <dl className="details">
        <Fact name="Spawned">
          <Moment at={createdAt} />
        </Fact>
        {endedAt !== null && (
          <Fact name="Ended">
            <Moment at={endedAt} />
          </Fact>
        )}
        <Facts status={status} />
      </dl>
      <Labels status={status} />
      {isLinked && (
        <div className="panel-row">
          <a href={dashboardUrl}>Link to this page</a>
          <CopyButton text={dashboardUrl} what="link to this page" />
        </div>
      )}
      {isLinked && <Commands status={status} />}
    </Panel>
  );
}

function adviceOn(status: AgentStatus): string {
  if (reasonRow(status).needsInput === 'fix') return status.needsInput;
  return status.phase === 'PHASE_PENDING'
    ? 'The agent retries the same messages. Choose “Retry now” to start immediately.'
    : 'Reopen the agent and send a message, or spawn another agent.';
}

function Labels({ status }: { readonly status: AgentStatus }) {
  const { caller } = useSignedIn();
  const mayChange = mayCommand(caller, status.agentId);
  const texts = labelTexts(status.labels);
  if (!mayChange && texts.length === 0) return null;
  return (
    <div>
      <h3>Labels</h3>
      {mayChange ? (
        <LabelEditor status={status} />
      ) : (
        <p className="label-list wrap">
          {texts.map((text) => (
            <Label key={text} text={text} />
          ))}
        </p>
      )}
    </div>
  );
}

const LongField = ({ title, text }: { readonly title: string; readonly text: string }) => (
  <div>
    <h3>{title}</h3>
    <PanelText label={title}>
      <Markdown text={text} />
    </PanelText>
  </div>
);

const Fact = ({ name, children }: { readonly name: string; readonly children: ReactNode }) => (
  <>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </>
);

function Facts({ status }: { readonly status: AgentStatus }) {
  const { agentId, run, model, persona, reasoningEffort, serviceTier, fastMode, backend, rehearsed } = status;
  const { inputTokens, cachedInputTokens, outputTokens, context } = status;
  return (
    <>
      <Fact name="Owner">
        {agentId.account} <small>{ownerKind(agentId.ownerProvider)}</small>
      </Fact>
      <Fact name="Workspace">{agentId.workspace}</Fact>
      <Fact name="Model">
        {model} <small>{rehearsed ? 'rehearsal: scripted, no model' : backendFacts[backend].title}</small>
      </Fact>
      {persona !== '' && <Fact name="Persona">{persona}</Fact>}
      {reasoningEffort !== '' && <Fact name="Effort">{reasoningEffort}</Fact>}
      {serviceTier !== '' && <Fact name="Tier">{serviceTier}</Fact>}
      {fastMode && <Fact name="Fast mode">on</Fact>}
      {run && <Fact name="Runner">{run.runnerId}</Fact>}
      <Fact name="Tokens">
        {thousands(inputTokens)} in
        {Number(cachedInputTokens) > 0 && ` (${thousands(cachedInputTokens)} cached)`},{' '}
        {thousands(outputTokens)} out
      </Fact>
      {context && (
        <Fact name="Context">
          <ContextMeter context={context} />
        </Fact>
      )}
    </>
  );
}

/** How full the model's context is. */
function ContextMeter({ context }: { readonly context: NonNullable<AgentStatus['context']> }) {
  const text = contextText(context);
  const window = Number(context.windowTokens);
  return (
    <>
      {text}
      {window > 0 && <progress max={window} value={Number(context.usedTokens)} aria-label={text} />}
    </>
  );
}

/** The CLI names agents within the own account, so it has no commands for agents of others. */
function Commands({ status: { agentId, branch, checkpointAt } }: { readonly status: AgentStatus }) {
  const { caller } = useSignedIn();
  if (caller.account !== agentId.account || caller.ownerProvider !== agentId.ownerProvider) return null;
  const path = agentId.agent.join('/');
  const name = agentId.workspace === 'default' ? path : `${agentId.workspace}:${path}`;
  const commands = [
    `muster logs -f ${name}`,
    `muster send ${name} "…"`,
    ...(branch === '' ? [] : [`muster diff ${name}`]),
    ...(checkpointAt === null ? [] : [`muster work ${name}`]),
    `muster kill ${name}`,
  ];
  return (
    <div>
      <h3>Command line</h3>
      <ul className="lined-list">
        {commands.map((command) => (
          <li key={command} className="panel-row">
            <code>{command}</code>
            <CopyButton text={command} what={command} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function LabelEditor({ status: { agentId, labels } }: { readonly status: AgentStatus }) {
  const [text, setText] = useState('');
  const [isMalformed, setMalformed] = useState(false);
  const { mutate, error, isPending } = useCommand(agentId, (client, change: Record<string, string>) =>
    client.label(agentId, change),
  );
  const add = (event: FormEvent) => {
    event.preventDefault();
    const [, key, value] = /^\s*([^=]+?)\s*=\s*(.*?)\s*$/s.exec(text) ?? [];
    setMalformed(!key || !value);
    if (key && value) mutate({ [key]: value }, { onSuccess: () => setText('') });
  };
  const keys = Object.keys(labels).sort();
  return (
    <form className="label-editor stack" aria-label="Labels" onSubmit={add}>
      {keys.length > 0 && (
        <ul className="label-list wrap">
          {keys.map((key) => (
            <li key={key}>
              <Label text={`${key}=${labels[key]}`} />
              <Button
                look="quiet"
                aria-label={`Remove label ${key}`}
                disabled={isPending}
                onClick={() => mutate({ [key]: '' })}
              >
                ✕
              </Button>
            </li>
          ))}
        </ul>
      )}
      <div className="input-line">
        <input
          aria-label="New label"
          aria-invalid={isMalformed}
          placeholder="key=value"
          spellCheck={false}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setMalformed(false);
          }}
        />
        <Button type="submit" disabled={isPending || text.trim() === ''}>
          Add
        </Button>
      </div>
      {isMalformed && (
        <p className="secondary" role="alert">
          Enter a label as key=value.
        </p>
      )}
      <Problem error={error} />
    </form>
  );
}
