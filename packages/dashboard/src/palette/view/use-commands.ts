import type { AgentEntry, Caller, MusterClient } from '@muster/sdk';
import {
  agentOfPage,
  agentPage,
  canReopen,
  canRetry,
  type Kind,
  kinds,
  kindTable,
  pathOf,
} from '@muster/sdk/contract';
import { useQueries } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { reviewedPage, reviewOfPage } from '../../agent/model/review-address.ts';
import { writeRefusal } from '../../catalog/model/resource.ts';
import { planOf, type Target } from '../../home/bulk/plan.ts';
import { useSavedViews } from '../../home/view/saved-views.tsx';
import { type Fleet, useFleet } from '../../live/fleet.ts';
import { mayCommand } from '../../live/model/allowed-actions.ts';
import { attentionOf, attentionTitles, isSeen } from '../../live/model/attention.ts';
import { resourcesQuery } from '../../live/resources.ts';
import { chooseTheme, themes } from '../../parts/theme.tsx';
import { signOut, useClient, useSignedIn } from '../../session/session.ts';
import { pagesFor } from '../../shell/pages.ts';
import { maySpawn, openSpawn } from '../../spawn/open-spawn.ts';
import type { Act, Command } from '../model/command.ts';
import { searchable } from '../model/fuzzy.ts';

const command = (id: string, title: string, hint: string, act: Act, keys?: string): Command => ({
  ...{ id, title, hint, act },
  text: searchable(title, hint),
  ...(keys !== undefined && { keys }),
});

const go = (title: string, hint: string, href: string, keys?: string): Command =>
  command(href, title, hint, { kind: 'go', href }, keys);
const run = (title: string, hint: string, act: () => unknown, keys?: string): Command =>
  command(title, title, hint, { kind: 'run', run: act }, keys);

/** The agent that the page shows, or whose row has the focus. */
export function agentAtHand(fleet: Fleet): Target | null {
  const row = document.activeElement?.closest('.agent-row')?.querySelector('a')?.getAttribute('href');
  const inInbox = location.pathname === '/inbox' && new URLSearchParams(location.search).get('agent');
  const agentId = agentOfPage(inInbox || row || (reviewedPage(location.pathname) ?? location.pathname));
  const page = agentId && agentPage(agentId);
  const entry = page && fleet.agent(page);
  return entry ? { page, entry } : null;
}

const bulkTitles = { message: 'Message', stop: 'Stop turn of', label: 'Label', kill: 'Kill' } as const;

function agentCommands(target: Target, fleet: Fleet, client: MusterClient, caller: Caller): Command[] {
  const { page, entry } = target;
  const { agentId, sequence, pinned } = entry;
  const name = pathOf(agentId);
  const seen = isSeen(entry);
  const hint = 'This agent';
  const may = mayCommand(caller, agentId);
  const asking = (['message', 'stop', 'label', 'kill'] as const)
    .filter((action) => planOf(action, [target], [], caller).targets.length > 0)
    .map((action) =>
      command(`${action} ${page}`, `${bulkTitles[action]} ${name}`, hint, { kind: 'bulk', action }),
    );
  const mark = (marked: { readonly seen?: string; readonly pinned?: boolean }) => () =>
    fleet.mark([[page, { agentId, ...marked }]]);
  return [
    ...asking,
    go(`Review changes of ${name}`, hint, reviewOfPage(page)),
    ...(may && canRetry(entry) ? [run(`Retry ${name}`, hint, () => client.retry(agentId))] : []),
    ...(may && canReopen(entry) ? [run(`Reopen ${name}`, hint, () => client.reopen(agentId))] : []),
    run(`Mark ${name} ${seen ? 'unseen' : 'seen'}`, hint, mark({ seen: seen ? '0' : sequence })),
    run(`${pinned ? 'Unpin' : 'Pin'} ${name}`, hint, mark({ pinned: !pinned })),
    run(`Copy link to ${name}`, hint, () => navigator.clipboard.writeText(location.origin + page)),
  ];
}

function generalCommands(caller: Caller, onHelp: () => void): Command[] {
  const kindsToWrite = kinds.filter((kind) => writeRefusal(caller, kind) === null);
  return [
    ...(maySpawn(caller) ? [run('New agent', 'Action', () => openSpawn(), 'n')] : []),
    ...pagesFor(caller).map(({ title, href, key }) => go(title, 'Page', href, key)),
    go('Settings', 'Page', '/settings', ','),
    go('Notifications', 'Page', '/notifications'),
    ...kinds.map((kind) => go(kindTable[kind].title, 'Catalog', `/catalog/${kind}`)),
    ...kindsToWrite.map((kind) => go(`New ${kindTable[kind].one}`, 'Action', `/catalog/${kind}?new`)),
    ...themes.map((theme) => run(`Theme: ${theme}`, 'Action', () => chooseTheme(theme))),
    run('Keyboard shortcuts', 'Action', onHelp, '?'),
    run('API reference', 'Page', () => location.assign('/docs')),
    run('Sign out', 'Action', signOut),
  ];
}

const agentCommand = (page: string, entry: AgentEntry): Command => {
  const { agentId } = entry;
  const status = attentionTitles[attentionOf(entry, false)];
  return {
    id: page,
    title: pathOf(agentId),
    hint: `${agentId.workspace} · ${agentId.account} · ${status}`,
    text: searchable(pathOf(agentId), `${agentId.workspace} ${agentId.account} ${status}`),
    act: { kind: 'go', href: page },
  };
};

const hrefOf = (kind: Kind, name: string): string => `/catalog/${kind}/${encodeURIComponent(name)}`;

/** One result per kind; none while it loads. */
const namesOf = (results: readonly { readonly data?: readonly { readonly name: string }[] | undefined }[]) =>
  kinds.flatMap((kind, at) => (results[at]?.data ?? []).map(({ name }) => ({ kind, name })));

/** Everything that the palette finds: first what can be done here, then pages, agents and resources. */
export function useCommands(isSearching: boolean, onHelp: () => void) {
  const fleet = useFleet();
  const client = useClient();
  const { caller } = useSignedIn();
  const { views } = useSavedViews();
  // As they were when the palette opened: a list that changes under the hand is hard to choose from.
  const [target] = useState(() => agentAtHand(fleet));
  const [agents] = useState(() => Array.from(fleet.entries(), ([page, entry]) => agentCommand(page, entry)));
  const lists = useQueries({
    queries: kinds.map((kind) => ({ ...resourcesQuery(client, kind), enabled: isSearching })),
    combine: namesOf,
  });
  const actions = useMemo(
    () => [
      ...(target ? agentCommands(target, fleet, client, caller) : []),
      ...generalCommands(caller, onHelp),
      ...views.map(({ name, url }) => ({ ...go(name, 'View', url), id: `view ${name}` })),
    ],
    [target, fleet, client, caller, views, onHelp],
  );
  const resources = useMemo(
    () => lists.map(({ kind, name }) => go(name, kindTable[kind].one, hrefOf(kind, name))),
    [lists],
  );
  const commands = useMemo(() => [...actions, ...agents, ...resources], [actions, agents, resources]);
  return { commands, target };
}
