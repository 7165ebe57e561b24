import type { AgentStatus } from '@muster/sdk';
import { agentPage, backendNames, dollars, thousands } from '@muster/sdk/contract';
import { Fragment, type ReactNode } from 'react';
import { Link } from 'wouter';
import { listUrl, noFilter } from '../home/model/filter.ts';
import { labelTexts, plural } from '../parts/model/text.ts';
import { Label } from '../parts/page.tsx';
import { Countdown } from '../parts/times.tsx';
import { nextStepOf } from './next-step.ts';
import { Standing } from './standing.tsx';
import './agent-header.css';

/** Who it is, how it stands and whose move that is, and what it runs on and costs. */
export function AgentHeader({
  status,
  children,
}: {
  readonly status: AgentStatus;
  readonly children: ReactNode;
}) {
  const { mover } = nextStepOf(status);
  return (
    <section className="agent-header" aria-label="How it stands">
      <div className="agent-title">
        <Crumbs status={status} />
        <Standing status={status}>
          {status.wakesAt !== null && (
            <span>
              wakes <Countdown to={status.wakesAt} />
            </span>
          )}
          {mover !== '' && <span>{mover}</span>}
        </Standing>
      </div>
      <div className="agent-commands">{children}</div>
      <Facts status={status} />
    </section>
  );
}

function Crumbs({ status: { agentId } }: { readonly status: AgentStatus }) {
  const ancestors = agentId.agent.slice(0, -1);
  return (
    <div className="agent-crumbs">
      {ancestors.length > 0 && (
        <nav aria-label="Agents above this one">
          {ancestors.map((name, depth) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: its place is what tells it from another of the same name.
            <Fragment key={depth}>
              <Link href={agentPage({ ...agentId, agent: agentId.agent.slice(0, depth + 1) })}>{name}</Link>
              <span aria-hidden="true">/</span>
            </Fragment>
          ))}
        </nav>
      )}
      <h1>{agentId.agent.at(-1)}</h1>
    </div>
  );
}

function Facts({ status }: { readonly status: AgentStatus }) {
  const { agentId } = status;
  const settings = [
    status.reasoningEffort && `effort ${status.reasoningEffort}`,
    status.serviceTier && `tier ${status.serviceTier}`,
    status.fastMode && 'fast mode',
  ].filter((words): words is string => Boolean(words));
  const texts = labelTexts(status.labels);
  const isParent = status.treeCost !== status.cost;
  return (
    <dl className="agent-facts">
      <Fact name="Model" isPlain>
        <strong>{status.model}</strong>
        {!status.rehearsed && <span>{backendNames[status.backend]}</span>}
        {settings.map((words) => (
          <span key={words}>{words}</span>
        ))}
      </Fact>
      {status.rehearsed && (
        <Fact name="Rehearsal">
          <em>no model is behind this agent</em>
        </Fact>
      )}
      {!status.sandboxed && !status.rehearsed && (
        <Fact name="No sandbox">
          <em>this agent has all rights of its runner’s user</em>
        </Fact>
      )}
      <Fact name="Cost" isPlain>
        <strong>{status.treeCost === 0 ? 'no cost yet' : dollars(status.cost)}</strong>
        {isParent && <span>{dollars(status.treeCost)} with its children</span>}
      </Fact>
      {status.totalTokens !== '0' && (
        <Fact name="Tokens" isPlain>
          <span>
            {thousands(status.inputTokens)} in
            {status.cachedInputTokens !== '0' && ` (${thousands(status.cachedInputTokens)} cached)`}
          </span>
          <span>{thousands(status.outputTokens)} out</span>
        </Fact>
      )}
      <Fact name="Runs" isPlain>
        {plural(Number(status.runCount), 'run')}
      </Fact>
      <Fact name="Persona">{status.persona || 'default'}</Fact>
      <Fact name="Workspace">{agentId.workspace}</Fact>
      <Fact name="Owner">{agentId.account}</Fact>
      {texts.length > 0 && (
        <Fact name="Labels" isList>
          {texts.map((text) => (
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

/** A plain one is understood without its name, which then stands there for those who listen. */
const Fact = ({
  name,
  isPlain = false,
  isList = false,
  children,
}: {
  readonly name: string;
  readonly isPlain?: boolean;
  /** Of things that need no comma between them. */
  readonly isList?: boolean;
  readonly children: ReactNode;
}) => (
  <div>
    <dt className={isPlain ? 'visually-hidden' : undefined}>{name}</dt>
    <dd data-list={isList}>{children}</dd>
  </div>
);
