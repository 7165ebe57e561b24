import type { AgentStatus } from '@muster/sdk';
import { backendNames, providerName, thousands } from '@muster/sdk/contract';
import type { ReactNode } from 'react';
import { CopyButton } from '../../parts/button.tsx';
import { Markdown } from '../../parts/markdown.tsx';
import { labelTexts } from '../../parts/model/text.ts';
import { Label } from '../../parts/page.tsx';
import { Age, Moment } from '../../parts/times.tsx';
import { useSignedIn } from '../../session/session.ts';
import { mayCommand } from '../may-command.ts';
import { LabelEditor } from './label-editor.tsx';
import { Panel } from './panel.tsx';
import { PanelText } from './panel-text.tsx';
import './details.css';

/** Everything else that is known of an agent. */
export function Details({ status, isLinked }: { readonly status: AgentStatus; readonly isLinked: boolean }) {
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
        <div className="details-error">
          <p>
            <code>{error.code}</code> {error.message}
          </p>
          <p>{adviceOn(status)}</p>
        </div>
      )}
      {description !== '' && <Words title="Description" text={description} />}
      {expectedOutput !== '' && <Words title="Expected output" text={expectedOutput} />}
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
          <a href={dashboardUrl}>The address of this page</a>
          <CopyButton text={dashboardUrl} what="the address of this page" />
        </div>
      )}
      {isLinked && <Commands status={status} />}
    </Panel>
  );
}

/** What to do about its error. */
function adviceOn({ phaseReason, needsInput }: AgentStatus): string {
  if (phaseReason === 'BLOCKED') return needsInput;
  return phaseReason === 'RETRYING'
    ? 'The same messages are tried again. Retry to start that immediately.'
    : 'Reopen the agent and send it what it needs, or spawn another.';
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
        <p className="details-labels">
          {texts.map((text) => (
            <Label key={text} text={text} />
          ))}
        </p>
      )}
    </div>
  );
}

const Words = ({ title, text }: { readonly title: string; readonly text: string }) => (
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
  const { inputTokens, cachedInputTokens, outputTokens } = status;
  return (
    <>
      <Fact name="Owner">
        {agentId.account} <small>{providerName(agentId.ownerProvider)}</small>
      </Fact>
      <Fact name="Workspace">{agentId.workspace}</Fact>
      <Fact name="Model">
        {model} <small>{rehearsed ? 'rehearsed: no model is behind it' : backendNames[backend]}</small>
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
    </>
  );
}

/** The same from a terminal. There an agent is named within one's own account, so others' are left out. */
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
      <h3>From the command line</h3>
      <ul className="details-commands">
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
