import { agentPage, backendFacts, dollars, thousands } from '@muster/sdk/contract';
import { Fragment, type ReactNode } from 'react';
import { Link } from 'wouter';
import { listUrl, noFilter } from '../../home/model/filter.ts';
import { isOwn } from '../../live/model/allowed-actions.ts';
import { labelTexts, plural } from '../../parts/model/text.ts';
import { Label } from '../../parts/page.tsx';
import { Countdown } from '../../parts/times.tsx';
import { useSignedIn } from '../../session/session.ts';
import { needsText } from '../model/status-text.ts';
import { StatusLine, type StatusProps } from './agent-layout.tsx';

export function AgentHeader({ status, children }: StatusProps) {
  const { caller } = useSignedIn();
  const needs = needsText(status, isOwn(status, caller));
  return (
    <section className="agent-header" aria-label="Status">
      <div className="agent-title wrap">
        <AgentPath status={status} />
        <StatusLine status={status}>
          {status.wakesAt !== null && (
            <span>
              starts <Countdown to={status.wakesAt} />
            </span>
          )}
          {needs !== '' && <span>{needs}</span>}
        </StatusLine>
      </div>
      <div className="agent-commands">{children}</div>
      <Facts status={status} />
    </section>
  );
}

function AgentPath({ status: { agentId } }: StatusProps) {
  const ancestors = agentId.agent.slice(0, -1);
  return (
    <div className="agent-path">
      {ancestors.length > 0 && (
        <nav aria-label="Parent agents">
          {ancestors.map((name, depth) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: two ancestors may have the same name.
            <Fragment key={depth}>
              <Link href={agentPage({ ...agentId, agent: agentId.agent.slice(0, depth + 1) })}>{name}</Link>
              <span aria-hidden="true">/</span>
            </Fragment>
          ))}
        </nav>
      )}
      <h1 dir="auto">{agentId.agent.at(-1)}</h1>
    </div>
  );
}

function ModelFact({ status }: StatusProps) {
  const settings = [
    status.reasoningEffort && `effort ${status.reasoningEffort}`,
    status.serviceTier && `tier ${status.serviceTier}`,
    status.fastMode && 'fast mode',
  ].filter((text): text is string => Boolean(text));
  return (
    <Fact name="Model" isNameHidden>
      <strong>{status.model}</strong>
      {!status.rehearsed && <span>{backendFacts[status.backend].title}</span>}
      {settings.map((text) => (
        <span key={text}>{text}</span>
      ))}
    </Fact>
  );
}

function Facts({ status }: StatusProps) {
  const { agentId } = status;
  const labels = labelTexts(status.labels);
  const isParent = status.treeCost !== status.cost;
  return (
    <dl className="agent-facts wrap secondary">
      <ModelFact status={status} />
      {status.rehearsed && (
        <Fact name="Rehearsal">
          <em>scripted, no model</em>
        </Fact>
      )}
      {!status.sandboxed && !status.rehearsed && (
        <Fact name="No sandbox">
          <em>full permissions of the runner’s user</em>
        </Fact>
      )}
      <Fact name="Cost" isNameHidden>
        <strong>{status.treeCost === 0 ? 'no cost yet' : dollars(status.cost)}</strong>
        {isParent && <span>{dollars(status.treeCost)} with children</span>}
      </Fact>
      {status.totalTokens !== '0' && (
        <Fact name="Tokens" isNameHidden>
          <span>
            {thousands(status.inputTokens)} in
            {status.cachedInputTokens !== '0' && ` (${thousands(status.cachedInputTokens)} cached)`}
          </span>
          <span>{thousands(status.outputTokens)} out</span>
        </Fact>
      )}
      <Fact name="Runs" isNameHidden>
        {plural(Number(status.runCount), 'run')}
      </Fact>
      <Fact name="Persona">{status.persona || 'default'}</Fact>
      <Fact name="Workspace">{agentId.workspace}</Fact>
      <Fact name="Owner">{agentId.account}</Fact>
      {labels.length > 0 && (
        <Fact name="Labels" isList>
          {labels.map((text) => (
            <Link
              key={text}
              href={listUrl({ ...noFilter, labels: [text] })}
              title="Show agents with this label"
            >
              <Label text={text} />
            </Link>
          ))}
        </Fact>
      )}
    </dl>
  );
}

const Fact = ({
  name,
  isNameHidden = false,
  isList = false,
  children,
}: {
  readonly name: string;
  /** For a value that is clear by itself; screen readers still read the name. */
  readonly isNameHidden?: boolean;
  /** Draws no commas between the values. */
  readonly isList?: boolean;
  readonly children: ReactNode;
}) => (
  <div>
    <dt className={isNameHidden ? 'visually-hidden' : undefined}>{name}</dt>
    <dd data-list={isList}>{children}</dd>
  </div>
);
