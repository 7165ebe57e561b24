import type { Claim, Task } from '@muster/sdk/contract';

/** What an agent is told about itself before any message: who it is, the rules of the house, its persona, its list. */
export function instructionsFor(claim: Claim, repos: readonly { readonly path: string }[]): string {
  return [
    whoYouAre(claim),
    repos.length > 0 ? workspaceRules(claim, repos) : '',
    houseRules,
    section('Expected output', claim.expectedOutput),
    section(`Persona: ${claim.persona.name}`, claim.persona.instructions),
    section('Your checklist as this turn begins', claim.tasks.filter(isListed).map(taskLine).join('\n')),
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

const whoYouAre = ({ agentId }: Claim): string =>
  `You are the agent "${agentId.agent.join('/')}" of workspace "${agentId.workspace}", run by Muster. You work in turns: a message comes, you work until it is done, and your turn ends. Nobody watches you type; whoever gave you the work reads your last message.`;

const workspaceRules = ({ branch, workspace }: Claim, repos: readonly { readonly path: string }[]): string =>
  [
    `# Your repositories`,
    repos.length === 1
      ? `Your working folder is a clone of your own, on your own branch ${branch}.`
      : `In your working folder each of ${repos.map((repo) => repo.path).join(', ')} is a clone of your own, on your own branch ${branch}.`,
    'Commit your work and push it with `git push` before your turn ends: what is not pushed may be lost when you move to another machine. You may push to your own branch only.',
    ...(workspace.document.allowCiChanges === true
      ? []
      : ['Pushes that change CI definitions (workflow files such as .github/workflows) are refused.']),
  ].join('\n');

const houseRules = `# Rules of the house
Your tools of the server "muster" reach the control plane:
- Keep your checklist true: take a task in progress when you begin it, mark it completed when it is done, delete it when it is not needed. Your turn is not over while active tasks are unfinished.
- If you cannot go on without an answer, use \`ask\` with one clear question and end your turn.
- When the whole work is done and no further message is expected, use \`finish\` and end your turn.
- If the work can't be done at all, and nobody could help, use \`fail\` with the reason and end your turn.
- You may spawn children for independent parts, message them, wait for them and kill them; you are told when they end.
- Processes that you leave running are ended with your turn.`;

const section = (title: string, text: string): string =>
  text.trim() === '' ? '' : `# ${title}\n${text.trim()}`;

const isListed = (task: Task): boolean => task.status !== 'TASK_STATUS_DELETED';

const marks: Readonly<Record<Task['status'], string>> = {
  TASK_STATUS_UNSPECIFIED: ' ',
  TASK_STATUS_PENDING: ' ',
  TASK_STATUS_IN_PROGRESS: '~',
  TASK_STATUS_COMPLETED: 'x',
  TASK_STATUS_DELETED: '-',
};

function taskLine(task: Task): string {
  const notes = [
    ...(task.blockedBy.length > 0 ? [`after ${task.blockedBy.join(', ')}`] : []),
    ...(task.activation?.filesModified
      ? [`only once you push changes to ${task.activation.filesModified.pattern || 'any file'}`]
      : []),
  ];
  const suffix = notes.length > 0 ? ` (${notes.join('; ')})` : '';
  const more = task.description === '' ? '' : `\n  ${task.description.replaceAll('\n', '\n  ')}`;
  return `- [${marks[task.status]}] ${task.id}: ${task.subject}${suffix}${more}`;
}
