import type { AgentId, Provider, SpawnInput, TaskInput } from '@muster/sdk';
import { firstLine, namePattern, providerByName } from '@muster/sdk/contract';
import { schemaProblem } from '../parts/model/json-problem.ts';
import type { LastChoices } from './last-choices.ts';
import type { SpawnPreset } from './open-spawn.ts';

export interface DraftTask {
  /** Its id on the wire, by which others say that they wait for it. */
  readonly id: string;
  readonly subject: string;
  readonly description: string;
  readonly blockedBy: readonly string[];
  /** Null: it is always active. Otherwise a glob, and empty means any file. */
  readonly pattern: string | null;
}

/** What stands in the form. Empty leaves a choice to the persona, the workspace or the service. */
export interface SpawnDraft extends LastChoices {
  readonly description: string;
  readonly name: string;
  readonly expectedOutput: string;
  readonly outputSchema: string;
  readonly fastMode: '' | 'on' | 'off';
  /** `account` or `provider_name/account`; empty is the caller. */
  readonly owner: string;
  readonly tasks: readonly DraftTask[];
}

/** Empty fields, but for what was chosen last, and before that what the preset says. */
export const draftFrom = (preset: SpawnPreset, last: LastChoices): SpawnDraft => ({
  description: preset.description ?? '',
  name: preset.name ?? '',
  workspace: preset.workspace ?? last.workspace,
  persona: preset.persona ?? last.persona,
  model: preset.model ?? last.model,
  reasoningEffort: preset.reasoningEffort ?? last.reasoningEffort,
  serviceTier: preset.serviceTier ?? last.serviceTier,
  fastMode: preset.fastMode === undefined ? '' : preset.fastMode ? 'on' : 'off',
  expectedOutput: preset.expectedOutput ?? '',
  outputSchema: preset.outputSchema ?? '',
  owner: '',
  tasks: draftTasks(preset.tasks ?? []),
});

function draftTasks(inputs: readonly TaskInput[]): DraftTask[] {
  const tasks: DraftTask[] = [];
  for (const { id, subject = '', description = '', blockedBy = [], activation } of inputs) {
    const pattern = activation?.filesModified ? (activation.filesModified.pattern ?? '') : null;
    tasks.push({ id: id || freeTaskId(tasks), subject, description, blockedBy, pattern });
  }
  return tasks;
}

/** `t1`, `t2`, …: short, since the agent is told of it too. */
export function freeTaskId(tasks: readonly Pick<DraftTask, 'id'>[]): string {
  const taken = new Set(tasks.map(({ id }) => id));
  let number = tasks.length + 1;
  while (taken.has(`t${number}`)) number += 1;
  return `t${number}`;
}

export const newTask = (tasks: readonly DraftTask[], subject = ''): DraftTask => ({
  id: freeTaskId(tasks),
  subject,
  description: '',
  blockedBy: [],
  pattern: null,
});

export const withoutTask = (tasks: readonly DraftTask[], gone: string): DraftTask[] =>
  tasks
    .filter(({ id }) => id !== gone)
    .map((task) => ({ ...task, blockedBy: task.blockedBy.filter((id) => id !== gone) }));

/** A row that was never filled in is no task, unless others wait for it. */
const isBlank = ({ id, subject, description }: DraftTask, tasks: readonly DraftTask[]): boolean =>
  subject.trim() === '' &&
  description.trim() === '' &&
  !tasks.some(({ blockedBy }) => blockedBy.includes(id));

/** Those that are sent: complaints count the tasks as they stand here. */
export const filledTasks = (tasks: readonly DraftTask[]): DraftTask[] =>
  tasks.filter((task) => !isBlank(task, tasks));

const namesIn = (name: string): string[] => name.trim().split('/').filter(Boolean);

/** Where it will stand in its tree; nothing where the service is to make up a name. */
export function pathIn(
  draft: Pick<SpawnDraft, 'name' | 'description'>,
  parent: AgentId | undefined,
): string[] {
  const names = namesIn(draft.name);
  if (!parent) return names;
  // Below a parent the service makes up no name.
  return [...parent.agent, ...(names.length === 0 ? [nameFrom(draft.description)] : names)];
}

/** The first words of what it is to do. */
export function nameFrom(description: string): string {
  const words =
    firstLine(description)
      .toLowerCase()
      .match(/[a-z0-9]+/g) ?? [];
  const name = words.slice(0, 4).join('-').slice(0, 40);
  return name.replace(/-+$/, '') || 'child';
}

/** What is wrong already before the service is asked, by the fields of the form. */
export function draftProblems(draft: SpawnDraft, parent: AgentId | undefined): ReadonlyMap<string, string> {
  const problems = new Map<string, string>();
  const note = (field: string, problem: string | undefined) => problem && problems.set(field, problem);
  const isNamed = new RegExp(namePattern);
  if (!namesIn(draft.name).every((name) => isNamed.test(name)))
    note('name', 'Only letters, digits, . _ and - are possible, and / between a parent and its child.');
  const tasks = filledTasks(draft.tasks);
  if (draft.description.trim() === '' && tasks.length === 0)
    note('description', 'Say what it should do, or give it tasks.');
  for (const [index, { subject }] of tasks.entries())
    if (subject.trim() === '') note(`tasks[${index}]`, 'Give the task a subject.');
  note('outputSchema', schemaProblem(draft.outputSchema));
  if (!parent && draft.owner !== '' && !ownerIn(draft.owner))
    note('owner', 'Write an account, or provider/account such as codehost_oauth/ada.');
  return problems;
}

export function ownerIn(owner: string): { account: string; ownerProvider?: Provider } | undefined {
  const [first = '', second, ...more] = owner.trim().split('/');
  if (second === undefined) return first === '' ? undefined : { account: first };
  const ownerProvider = providerByName(first);
  return ownerProvider && second !== '' && more.length === 0 ? { account: second, ownerProvider } : undefined;
}

/** The draft as the service is asked for it. */
export function spawnInputOf(draft: SpawnDraft, parent: AgentId | undefined): SpawnInput {
  const { description, model, persona, reasoningEffort, serviceTier, fastMode } = draft;
  const agent = pathIn(draft, parent);
  const filled = filledTasks(draft.tasks);
  const awaited = new Set(filled.flatMap(({ blockedBy }) => blockedBy));
  return {
    path: parent
      ? { ...parent, agent }
      : { agent, workspace: draft.workspace, ...(draft.owner !== '' && ownerIn(draft.owner)) },
    description: description.trim(),
    ...(persona !== '' && { persona }),
    ...(model.trim() !== '' && { model: model.trim() }),
    ...(reasoningEffort !== '' && { reasoningEffort }),
    ...(serviceTier !== '' && { serviceTier }),
    ...(fastMode !== '' && { fastMode: fastMode === 'on' }),
    ...(draft.expectedOutput.trim() !== '' && { expectedOutput: draft.expectedOutput.trim() }),
    ...(draft.outputSchema.trim() !== '' && { outputSchema: draft.outputSchema }),
    ...(filled.length > 0 && { tasks: filled.map((task) => taskInput(task, awaited)) }),
  };
}

const taskInput = (
  { id, subject, description, blockedBy, pattern }: DraftTask,
  awaited: ReadonlySet<string>,
): TaskInput => ({
  ...(awaited.has(id) && { id }),
  subject: subject.trim(),
  ...(description.trim() !== '' && { description: description.trim() }),
  ...(blockedBy.length > 0 && { blockedBy: [...blockedBy] }),
  ...(pattern !== null && { activation: { filesModified: { pattern: pattern.trim() } } }),
});
