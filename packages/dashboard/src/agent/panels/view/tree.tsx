import type { AgentStatus } from '@muster/sdk';
import { agentPage, dollars, isTerminal, statusText } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { Link } from 'wouter';
import { canHaveChild, mayCommand } from '../../../live/model/allowed-actions.ts';
import { attentionOf } from '../../../live/model/attention.ts';
import { StatusIcon } from '../../../live/status-icon.tsx';
import { Button, ExpandIcon } from '../../../parts/button.tsx';
import { plural } from '../../../parts/model/text.ts';
import { Problem } from '../../../parts/problem.tsx';
import { useClient, useSignedIn } from '../../../session/session.ts';
import { openSpawn } from '../../../spawn/open-spawn.ts';
import { isExpandedByDefault, type TreeNode, treeOf } from '../model/agent-tree.ts';
import { Panel } from './panel.tsx';

const pollMs = 5_000;

function summaryOf({ treeCost, children }: AgentStatus): string {
  if (children.length === 0) return treeCost > 0 ? dollars(treeCost) : 'no children';
  return treeCost > 0 ? `${dollars(treeCost)} with children` : plural(children.length, 'child', 'children');
}

export function Tree({ status }: { readonly status: AgentStatus }) {
  const { children, agentId } = status;
  const { caller } = useSignedIn();
  const isAlone = children.length === 0 && agentId.agent.length === 1;
  return (
    <Panel title="Tree" summary={summaryOf(status)}>
      {isAlone ? (
        <p className="secondary">
          No parent and no children. Agents spawn children to split their work; you can spawn one with{' '}
          <code>muster spawn "…" --name {agentId.agent[0]}/child</code>.
        </p>
      ) : (
        <WholeTree status={status} />
      )}
      {canHaveChild(status) && mayCommand(caller, agentId) && (
        <div>
          <Button onClick={() => openSpawn({ parent: agentId })}>Spawn child</Button>
        </div>
      )}
    </Panel>
  );
}

function WholeTree({ status }: { readonly status: AgentStatus }) {
  const { data, error } = useTree(status);
  const [choices, setChoices] = useState<ReadonlyMap<string, boolean>>(new Map());
  if (!data) return error ? <Problem error={error} /> : <p className="secondary">Loading …</p>;
  const path = status.agentId.agent;
  const view: TreeView = {
    current: agentPage(status.agentId),
    isOpen: (node) => choices.get(node.page) ?? isExpandedByDefault(data, node, path),
    setOpen: (node, isOpen) => setChoices(new Map(choices).set(node.page, isOpen)),
  };
  return (
    <>
      <Problem error={error} />
      <p className="tree-head secondary" aria-hidden="true">
        <span>own</span>
        <span>total</span>
      </p>
      <ul className="tree">
        <Branch node={data} view={view} />
      </ul>
    </>
  );
}

/** The tree from its root, polled while an agent in it is live, and loaded again when a child changes. */
function useTree({ agentId, children, phaseReason, phaseSince }: AgentStatus) {
  const client = useClient();
  const root = { ...agentId, agent: agentId.agent.slice(0, 1) };
  return useQuery({
    queryKey: ['tree', agentPage(root), children.length, phaseReason, phaseSince],
    queryFn: async ({ signal }) => {
      const below = async () => {
        const entries = [];
        const filter = { parent: root, account: '*', allDepths: true, includeTerminal: true };
        for await (const entry of client.listAll(filter, { signal })) entries.push(entry);
        return entries;
      };
      return treeOf(...(await Promise.all([client.status(root, { signal }), below()])));
    },
    placeholderData: (previous) => previous,
    refetchInterval: ({ state: { data } }) =>
      data && (data.liveBelow > 0 || !isTerminal(data.agent.phase)) ? pollMs : false,
  });
}

interface TreeView {
  readonly current: string;
  readonly isOpen: (node: TreeNode) => boolean;
  readonly setOpen: (node: TreeNode, isOpen: boolean) => void;
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
          <Button
            look="quiet"
            aria-expanded={isOpen}
            aria-controls={childrenId}
            aria-label={`Children of ${name}`}
            onClick={() => view.setOpen(node, !isOpen)}
          >
            <ExpandIcon />
          </Button>
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
        <span className="tree-cost secondary">
          <span className="visually-hidden">own cost </span>
          {dollars(agent.cost)}
        </span>
        <span className="tree-cost secondary">
          {children.length > 0 && (
            <>
              <span className="visually-hidden">total cost </span>
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
