import type { AgentStatus } from '@muster/sdk';
import { agentPage, dollars, isTerminal, statusText } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { Link } from 'wouter';
import { attentionOf } from '../../live/model/attention.ts';
import { StatusIcon } from '../../live/status-icon.tsx';
import { plural } from '../../parts/model/text.ts';
import { Problem } from '../../parts/problem.tsx';
import { useClient } from '../../session/session.ts';
import { NewChild } from './new-child.tsx';
import { Panel } from './panel.tsx';
import { isUnfolded, type TreeNode, treeOf } from './tree-rows.ts';
import './tree.css';

const liveMs = 5_000;

function summaryOf({ treeCost, children }: AgentStatus): string {
  if (treeCost > 0) return `${dollars(treeCost)} from here down`;
  return children.length === 0 ? 'no children' : plural(children.length, 'child', 'children');
}

/** Where an agent stands among its parents and children, and what they cost together. */
export function Tree({ status }: { readonly status: AgentStatus }) {
  const { children, agentId } = status;
  const isAlone = children.length === 0 && agentId.agent.length === 1;
  return (
    <Panel title="Tree" summary={summaryOf(status)}>
      {isAlone ? (
        <p className="panel-empty">
          It stands alone. An agent spawns children by itself when its work can be split; you can spawn one
          with <code>muster spawn "…" --name {agentId.agent[0]}/child</code>.
        </p>
      ) : (
        <WholeTree status={status} />
      )}
      <NewChild status={status} />
    </Panel>
  );
}

function WholeTree({ status }: { readonly status: AgentStatus }) {
  const { data, error } = useTree(status);
  const [folds, setFolds] = useState<ReadonlyMap<string, boolean>>(new Map());
  if (!data) return error ? <Problem error={error} /> : <p className="panel-empty">Loading …</p>;
  const path = status.agentId.agent;
  const view: TreeView = {
    current: agentPage(status.agentId),
    isOpen: (node) => folds.get(node.page) ?? isUnfolded(data, node, path),
    fold: (node, isOpen) => setFolds(new Map(folds).set(node.page, isOpen)),
  };
  return (
    <>
      <Problem error={error} />
      <p className="tree-head" aria-hidden="true">
        <span>own</span>
        <span>in all</span>
      </p>
      <ul className="tree">
        <Branch node={data} view={view} />
      </ul>
    </>
  );
}

/** The whole tree from its root, looked at again whenever a child came or settled, and while anything in it lives. */
function useTree({ agentId, children, phaseReason, phaseSince }: AgentStatus) {
  const client = useClient();
  const root = { ...agentId, agent: agentId.agent.slice(0, 1) };
  return useQuery({
    queryKey: ['tree', agentPage(root), children.length, phaseReason, phaseSince],
    queryFn: async ({ signal }) => {
      const entries = [];
      const filter = { parent: root, account: '*', allDepths: true, includeTerminal: true };
      const top = client.status(root, { signal });
      for await (const entry of client.listAll(filter, { signal })) entries.push(entry);
      return treeOf(await top, entries);
    },
    placeholderData: (previous) => previous,
    refetchInterval: ({ state: { data } }) =>
      data && (data.liveBelow > 0 || !isTerminal(data.agent.phase)) ? liveMs : false,
  });
}

interface TreeView {
  readonly current: string;
  readonly isOpen: (node: TreeNode) => boolean;
  readonly fold: (node: TreeNode, isOpen: boolean) => void;
}

function Branch({ node, view }: { readonly node: TreeNode; readonly view: TreeView }) {
  const { agent, children, page, below, liveBelow } = node;
  const isOpen = view.isOpen(node);
  const childrenId = useId();
  const name = agent.agentId.agent.at(-1);
  return (
    <li>
      <div className="tree-agent" data-current={page === view.current}>
        {children.length > 0 ? (
          <button
            type="button"
            aria-expanded={isOpen}
            aria-controls={childrenId}
            aria-label={`Children of ${name}`}
            onClick={() => view.fold(node, !isOpen)}
          >
            <svg viewBox="0 0 12 12" width="9" height="9" aria-hidden="true">
              <path d="M3.5 1.5 8.5 6l-5 4.5" fill="none" stroke="currentColor" strokeWidth="1.8" />
            </svg>
          </button>
        ) : (
          <span className="tree-leaf" />
        )}
        <StatusIcon attention={attentionOf(agent, false)} />
        <span className="tree-name">
          <Link href={page} {...(page === view.current && { 'aria-current': 'page' as const })}>
            {name}
          </Link>{' '}
          <small>
            {statusText(agent)}
            {!isOpen &&
              children.length > 0 &&
              ` · ${below} below${liveBelow > 0 ? `, ${liveBelow} live` : ''}`}
          </small>
        </span>
        <span className="tree-cost">
          <span className="visually-hidden">own cost </span>
          {dollars(agent.cost)}
        </span>
        <span className="tree-cost">
          {children.length > 0 && (
            <>
              <span className="visually-hidden">with those below </span>
              {dollars(agent.treeCost)}
            </>
          )}
        </span>
      </div>
      {children.length > 0 && (
        <ul id={childrenId} hidden={!isOpen}>
          {isOpen && children.map((child) => <Branch key={child.page} node={child} view={view} />)}
        </ul>
      )}
    </li>
  );
}
