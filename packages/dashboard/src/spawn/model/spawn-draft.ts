import {
  type AgentEntry,
  type AgentId,
  AlreadyExistsError,
  InvalidArgumentError,
  type Provider,
  type SpawnInput,
  type TaskInput,
} from '@muster/sdk';
import { firstLine, isRehearsalModel, namePattern, providerByName } from '@muster/sdk/contract';
import { amountProblem } from '../../parts/model/amount.ts';
import type { DraftImage } from '../../parts/model/images.ts';
import { schemaProblem } from '../../parts/model/json-problem.ts';
import { sentence } from '../../parts/model/text.ts';

/** The choices that the form remembers. The task of the agent is never remembered. */
export interface LastChoices {
  readonly workspace: string;
  readonly persona: string;
  readonly model: string;
  readonly reasoningEffort: string;
  readonly serviceTier: string;
}

export const noChoices: LastChoices = {
  workspace: 'default',
  persona: '',
  model: '',
  reasoningEffort: '',
  serviceTier: '',
};

export const choiceNames = Object.keys(noChoices) as (keyof LastChoices)[];

/** Ignores stored values of the wrong type, for example of an earlier version. */
export function parseChoices(stored: string | null): LastChoices {
  const values: Partial<Record<string, unknown>> = parseObject(stored) ?? {};
  const text = (name: keyof LastChoices) =>
    typeof values[name] === 'string' ? values[name] : noChoices[name];
  return Object.fromEntries(choiceNames.map((name) => [name, text(name)])) as unknown as LastChoices;
}

function parseObject(stored: string | null): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(stored ?? 'null');
    return typeof value === 'object' ? (value as Record<string, unknown> | null) : null;
  } catch {
    return null;
  }
}

/** "workspace web, model opus"; empty if nothing was chosen. */
export const choicesText = (choices: LastChoices): string =>
  choiceNames
    .filter((name) => choices[name] !== noChoices[name])
    .map((name) => `${choiceTitles[name]} ${choices[name]}`)
    .join(', ');

const choiceTitles: Readonly<Record<keyof LastChoices, string>> = {
  workspace: 'workspace',
  persona: 'persona',
  model: 'model',
  reasoningEffort: 'effort',
  serviceTier: 'tier',
};

export interface DraftTask {
  /** Other tasks refer to it in `blockedBy`. */
  readonly id: string;
  readonly subject: string;
  readonly description: string;
  readonly blockedBy: readonly string[];
  /** A glob of files that activate the task; empty for any file, null if the task is always active. */
  readonly pattern: string | null;
}

/** The content of the form. An empty value leaves the choice to the persona, the workspace or the service. */
export interface SpawnDraft extends LastChoices {
  readonly description: string;
  readonly name: string;
  readonly expectedOutput: string;
  readonly outputSchema: string;
  /** In USD. */
  readonly budgetUsd: string;
  readonly fastMode: '' | 'on' | 'off';
  /** `account` or `provider_name/account`; empty is the caller. */
  readonly owner: string;
  readonly tasks: readonly DraftTask[];
  /** `key=value`, separated by commas or lines. */
  readonly labels: string;
  readonly images: readonly DraftImage[];
}

/** Initial values of the form. They override the last choices. */
export interface SpawnPreset extends Partial<Omit<SpawnDraft, 'fastMode' | 'owner' | 'tasks' | 'images'>> {
  /** The new agent becomes a child of this one, with the same workspace and owner. */
  readonly parent?: AgentId;
  readonly fastMode?: boolean;
  readonly tasks?: readonly TaskInput[];
}

export function draftFrom(preset: SpawnPreset, last: LastChoices): SpawnDraft {
  const { parent: _, fastMode, tasks = [], ...fields } = preset;
  return {
    description: '',
    name: '',
    expectedOutput: '',
    outputSchema: '',
    budgetUsd: '',
    owner: '',
    labels: '',
    images: [],
    ...last,
    ...fields,
    fastMode: fastMode === undefined ? '' : fastMode ? 'on' : 'off',
    tasks: draftTasks(tasks),
  };
}

function draftTasks(inputs: readonly TaskInput[]): DraftTask[] {
  const tasks: DraftTask[] = [];
  for (const { id, subject = '', description = '', blockedBy = [], activation } of inputs) {
    const pattern = activation?.filesModified ? (activation.filesModified.pattern ?? '') : null;
    tasks.push({ id: id || freeTaskId(tasks), subject, description, blockedBy, pattern });
  }
  return tasks;
}

/** `t1`, `t2`, …: short, because the agent reads it too. */
function freeTaskId(tasks: readonly Pick<DraftTask, 'id'>[]): string {
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

export const withoutTask = (tasks: readonly DraftTask[], removed: string): DraftTask[] =>
  tasks
    .filter(({ id }) => id !== removed)
    .map((task) => ({ ...task, blockedBy: task.blockedBy.filter((id) => id !== removed) }));

/** An empty row is not a task, unless another task depends on it. */
const isBlank = ({ id, subject, description }: DraftTask, tasks: readonly DraftTask[]): boolean =>
  subject.trim() === '' &&
  description.trim() === '' &&
  !tasks.some(({ blockedBy }) => blockedBy.includes(id));

/** The tasks that are sent. The service's errors use the indexes of this list. */
export const filledTasks = (tasks: readonly DraftTask[]): DraftTask[] =>
  tasks.filter((task) => !isBlank(task, tasks));

const namesIn = (name: string): string[] => name.trim().split('/').filter(Boolean);

/** The path of the new agent; empty if the service generates a name. */
export function pathIn(
  draft: Pick<SpawnDraft, 'name' | 'description'>,
  parent: AgentId | undefined,
): string[] {
  const names = namesIn(draft.name);
  if (!parent) return names;
  // The service generates names only for agents without a parent.
  return [...parent.agent, ...(names.length === 0 ? [nameFrom(draft.description)] : names)];
}

/** A name from the first words of the description. */
export function nameFrom(description: string): string {
  const words =
    firstLine(description)
      .toLowerCase()
      .match(/[a-z0-9]+/g) ?? [];
  const name = words.slice(0, 4).join('-').slice(0, 40);
  return name.replace(/-+$/, '') || 'child';
}

/** Problems that the form finds before it is sent, by field. */
export function draftProblems(draft: SpawnDraft, parent: AgentId | undefined): ReadonlyMap<string, string> {
  const problems = new Map<string, string>();
  const add = (field: string, problem: string | undefined) => problem && problems.set(field, problem);
  const isNamed = new RegExp(namePattern);
  if (!namesIn(draft.name).every((name) => isNamed.test(name)))
    add('name', 'Use letters, digits, . _ and -, and / between a parent and its child.');
  const tasks = filledTasks(draft.tasks);
  if (draft.description.trim() === '' && tasks.length === 0)
    add('description', 'Describe the task, or add tasks below.');
  for (const [index, { subject }] of tasks.entries())
    if (subject.trim() === '') add(`tasks[${index}]`, 'Enter a subject.');
  add('outputSchema', schemaProblem(draft.outputSchema));
  if (draft.budgetUsd.trim() !== '') add('budgetUsd', amountProblem(draft.budgetUsd));
  if (labelsIn(draft.labels) === null) add('labels', 'Enter labels as key=value, separated by commas.');
  if (!parent && draft.owner !== '' && !ownerIn(draft.owner))
    add('owner', 'Enter an account, or provider/account such as codehost_oauth/ada.');
  return problems;
}

/** Null if a label has no value. */
function labelsIn(text: string): Record<string, string> | null {
  const pairs = text
    .split(/[,\n]/)
    .map((pair) => pair.trim())
    .filter(Boolean)
    .map((pair) => /^([^=]+)=(.+)$/.exec(pair));
  if (!pairs.every((pair) => pair !== null)) return null;
  return Object.fromEntries(pairs.map(([, key = '', value = '']) => [key.trim(), value.trim()]));
}

export function ownerIn(owner: string): { account: string; ownerProvider?: Provider } | undefined {
  const [first = '', second, ...more] = owner.trim().split('/');
  if (second === undefined) return first === '' ? undefined : { account: first };
  const ownerProvider = providerByName(first);
  return ownerProvider && second !== '' && more.length === 0 ? { account: second, ownerProvider } : undefined;
}

/** The request of the draft. */
export function spawnInputOf(draft: SpawnDraft, parent: AgentId | undefined): SpawnInput {
  const { description, model, persona, reasoningEffort, serviceTier, fastMode } = draft;
  const agent = pathIn(draft, parent);
  const filled = filledTasks(draft.tasks);
  const labels = labelsIn(draft.labels) ?? {};
  const referenced = new Set(filled.flatMap(({ blockedBy }) => blockedBy));
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
    ...(draft.budgetUsd.trim() !== '' && { budgetUsd: Number(draft.budgetUsd) }),
    ...(draft.outputSchema.trim() !== '' && { outputSchema: draft.outputSchema }),
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(filled.length > 0 && { tasks: filled.map((task) => taskInput(task, referenced)) }),
  };
}

const taskInput = (
  { id, subject, description, blockedBy, pattern }: DraftTask,
  referenced: ReadonlySet<string>,
): TaskInput => ({
  ...(referenced.has(id) && { id }),
  subject: subject.trim(),
  ...(description.trim() !== '' && { description: description.trim() }),
  ...(blockedBy.length > 0 && { blockedBy: [...blockedBy] }),
  ...(pattern !== null && { activation: { filesModified: { pattern: pattern.trim() } } }),
});

/**
 * Whether the newest agent with a real model was rehearsed; undefined if there is none. The service has no general answer,
 * because it depends on the runner.
 */
export function areModelsRehearsed(
  agents: Iterable<Pick<AgentEntry, 'model' | 'rehearsed' | 'createdAt'>>,
): boolean | undefined {
  let newest: Pick<AgentEntry, 'rehearsed' | 'createdAt'> | undefined;
  for (const agent of agents)
    if (!isRehearsalModel(agent.model) && !(newest && newest.createdAt > agent.createdAt)) newest = agent;
  return newest?.rehearsed;
}

/** The service's error by field of the form; `rest` is an error without a field. */
interface SpawnProblems {
  readonly fields: ReadonlyMap<string, string>;
  readonly rest: unknown;
}

const formFields: readonly (readonly [pattern: RegExp, field: string])[] = [
  [
    /^(description|expectedOutput|model|reasoningEffort|serviceTier|fastMode|outputSchema|budgetUsd|tasks)$/,
    '$1',
  ],
  [/^tasks\[(\d+)\].*$/, 'tasks[$1]'],
  [/^agentId\.agent(\[\d+\])?$/, 'name'],
  [/^(agentId\.)?workspace$/, 'workspace'],
  [/^(agent|persona|workspace\.persona)$/, 'persona'],
  [/^agentId\.(account|ownerProvider)$/, 'owner'],
  [/^labels\b.*$/, 'labels'],
];

/** The field of the form for a field of the request. */
export function formFieldOf(field: string): string | undefined {
  const match = formFields.find(([pattern]) => pattern.test(field));
  return match && field.replace(...match);
}

/** The fields under "More options". */
export const moreFields = [
  'reasoningEffort',
  'serviceTier',
  'fastMode',
  'expectedOutput',
  'outputSchema',
  'budgetUsd',
  'labels',
  'owner',
];

export function spawnProblems(error: unknown): SpawnProblems {
  const fields = new Map<string, string>();
  if (error instanceof AlreadyExistsError && error.message.startsWith('Idempotency-Key'))
    return {
      fields,
      rest: new Error('An earlier attempt already started the agent. Look for it in the list.'),
    };
  if (error instanceof AlreadyExistsError)
    return { fields: new Map([['name', sentence(error.message)]]), rest: null };
  if (!(error instanceof InvalidArgumentError)) return { fields, rest: error };
  let hasFieldForAll = error.fieldViolations.length > 0;
  for (const { field, description } of error.fieldViolations) {
    const name = formFieldOf(field);
    if (name) fields.set(name, sentence(description));
    else hasFieldForAll = false;
  }
  return { fields, rest: hasFieldForAll ? null : error };
}
