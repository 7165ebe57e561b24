import { type ChangeRequest, changeRequestNotes, clock, pathOf, providerName } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { messageText } from './input.ts';
import type { Column, Output, Style } from './output.ts';

export function addChangeRequestCommands(program: Command): void {
  const requests = program
    .command('cr')
    .description('open and follow change requests of agents: pull requests, merge requests');
  addCommand(requests, 'ls', 'list the change requests of all agents', list, { isDefault: true }).option(
    '--all',
    'also those that are merged or closed',
  );
  addCommand(
    requests,
    'open <agent>',
    'open a change request from the branch that the agent pushed; shows the one that is open',
    open,
  )
    .option('--title <text>', "default: the first line of the agent's last response")
    .option('--description <text>', "default: the agent's last response")
    .option('-f, --file <file>', 'read the description from a file; - is standard input')
    .option('--draft', 'open it as a draft')
    .option('--base <branch>', "the branch to merge into; default: the workspace's base branch")
    .option('--repo <url>', 'the repository, if the agent pushed to several');
  addCommand(requests, 'show <change-request>', 'show one change request', show);
  addCommand(
    requests,
    'sync [change-request]',
    'compare one change request, or all that are open, with the code host now',
    sync,
  );
}

async function list({ flags, client, output, signal }: Invocation<Flags<never, 'all'>>): Promise<void> {
  const requests: ChangeRequest[] = [];
  for await (const { document } of client().catalog.listAll('change-request', { signal })) {
    const request = document as unknown as ChangeRequest;
    if (flags.all || isOpen(request)) requests.push(request);
  }
  await output.table(
    requests,
    [
      { title: 'NAME', of: ({ name }) => name },
      { title: 'STATE', of: stateText, style: stateStyle },
      { title: 'CHECKS', of: ({ checks }) => checks.state.toLowerCase(), style: checksStyle },
      { title: 'REVIEW', of: ({ review }) => words(review.state) },
      { title: 'OPEN THREADS', of: ({ review }) => String(review.openThreads), isRight: true },
      { title: 'AGENT', of: agentOf, isFlexible: true },
      { title: 'TITLE', of: ({ title }) => title, isFlexible: true },
      ...(requests.some(({ problem }) => problem) ? [problemColumn] : []),
    ],
    flags.all
      ? 'no change requests; open one with muster cr open <agent>'
      : 'no open change requests; --all lists those that are merged or closed, too',
  );
}

const problemColumn: Column<ChangeRequest> = {
  title: 'PROBLEM',
  of: ({ problem }) => problem ?? '',
  style: () => 'red',
  isFlexible: true,
};

const isOpen = ({ state }: ChangeRequest): boolean => state === 'OPEN' || state === 'DRAFT';

const words = (state: string): string => state.toLowerCase().replaceAll('_', ' ');

const agentOf = ({ agentId }: ChangeRequest): string => (agentId ? pathOf(agentId) : '');

const stateText = ({ state, paused }: ChangeRequest): string => `${words(state)}${paused ? ', paused' : ''}`;

const stateStyle = ({ state, paused }: ChangeRequest): Style | undefined =>
  paused ? 'yellow' : state === 'OPEN' || state === 'MERGED' ? 'green' : 'dim';

const checksStyle = ({ checks: { state } }: ChangeRequest): Style | undefined =>
  (({ FAILING: 'red', PASSING: 'green', PENDING: 'yellow', NONE: 'dim' }) as const)[state];

/** As commands take it, also if the agent is of another account. */
const referenceOf = ({ agentId }: ChangeRequest): string =>
  agentId
    ? `${providerName(agentId.ownerProvider)}/${agentId.account}:${agentId.workspace}:${pathOf(agentId)}`
    : '';

/** One change request in the status of its agent. */
export const changeRequestLine = (request: ChangeRequest): string =>
  `${request.name}  ${changeRequestNotes(request)}  ${request.url}`;

type OpenFlags = Flags<'title' | 'description' | 'file' | 'base' | 'repo', 'draft'>;

async function open({ flags, client, output, signal }: Invocation<OpenFlags>, agent: string): Promise<void> {
  const { title, base, repo, draft } = flags;
  const description = await messageText(flags.description, flags.file, false, signal);
  const fields = { title, base, repo, draft, ...(description !== '' && { description }) };
  const opening = client().openChangeRequest(agent, fields, { signal });
  const { changeRequest } = await output.progress.during('waiting for the code host', opening);
  output.answer(changeRequest, () => {
    if (changeRequest) output.line(changeRequestLine(changeRequest));
    else
      output.note(
        'the code host has not answered yet; the change request is opened as soon as it does, and muster cr ls shows it',
      );
  });
}

async function show({ client, output, signal }: Invocation, name: string): Promise<void> {
  const { document } = await client().catalog.read('change-request', name, { signal });
  const request = document as unknown as ChangeRequest;
  output.answer(request, () => {
    for (const line of requestLines(request, output)) output.line(line);
  });
}

function requestLines(request: ChangeRequest, output: Output): string[] {
  const field = (name: string, value: string): string[] =>
    value === '' ? [] : [`${output.paint('dim', name.padEnd(12))}${value}`];
  const { checks, review } = request;
  const failing = checks.failing.length > 0 ? `: ${checks.failing.join(', ')}` : '';
  return [
    output.paint('bold', request.title),
    ...field('state', output.paint(stateStyle(request), stateText(request))),
    ...field('problem', output.paint('red', request.problem ?? '')),
    ...field('request', `${request.repo}#${request.number}, ${request.branch} into ${request.base}`),
    ...field('head', request.headSha),
    ...field('checks', `${output.paint(checksStyle(request), words(checks.state))}${failing}`),
    ...field(
      'review',
      `${words(review.state)}; ${review.openThreads} open and ${review.resolvedThreads} resolved threads on lines`,
    ),
    ...field('rounds', String(request.rounds)),
    ...field('agent', referenceOf(request)),
    ...field('integration', request.integration),
    ...field('opened', clock(request.createdAt)),
    ...field('updated', clock(request.updatedAt)),
    ...field('url', request.url),
  ];
}

async function sync({ client, output, signal }: Invocation, name?: string): Promise<void> {
  const reply = await client().syncChangeRequests({ name }, { signal });
  output.answer(reply, ({ asked }) =>
    output.line(`comparing ${asked} change ${asked === 1 ? 'request' : 'requests'} with the code host`),
  );
}
