import { type AgentState, type FollowUp, isUndelivered } from '../../packages/service/src/domain/agent.ts';
import { spawnAgent } from '../../packages/service/src/domain/commands/spawn-agent.ts';
import { type AgentCommand, decide, needsOf } from '../../packages/service/src/domain/decide.ts';
import type { Decision } from '../../packages/service/src/domain/decision.ts';
import { childView, LoadedAgents } from '../../packages/service/src/domain/loaded-agents.ts';
import { canonicalStateOf } from './canonical.ts';
import { type AgentHistory, type Histories, recorded, wholeState } from './history.ts';
import { checkAgent, checkTrees } from './invariants.ts';
import { type Act, otherSteps, type PossibleStep, stepsFor } from './possible-steps.ts';
import { overridesById, spawn } from './samples.ts';
import { checkStep } from './step-invariants.ts';
import { TimelineAudit, Violation } from './timeline-audit.ts';

/** All agents at one moment. */
interface Snapshot {
  readonly histories: Histories;
  readonly nowMs: number;
}

/** A snapshot, and the step that led to it. */
interface Place extends Snapshot {
  readonly previous: Place | null;
  readonly step: string;
}

export interface BrokenSequence {
  readonly message: string;
  readonly sequence: readonly string[];
}

export interface Exploration {
  /** Distinct states from which every command was tried. */
  readonly states: number;
  readonly steps: number;
  /** The shortest sequence for each kind of violation. */
  readonly broken: readonly BrokenSequence[];
}

const startMs = Date.parse('2030-01-01T00:00:00.000Z');
/** Many steps are taken at the same few times. */
const isoByMs = new Map<number, string>();
function iso(ms: number): string {
  const text = isoByMs.get(ms) ?? new Date(ms).toISOString();
  isoByMs.set(ms, text);
  return text;
}

/** Where a walk begins, how far it goes, and which agents it commands. */
export interface Walk {
  readonly from: readonly string[];
  readonly depth: number;
  readonly isCommanded: (history: AgentHistory) => boolean;
}

/**
 * Walks breadth first, so that the first sequence that breaks something is a shortest one. Where a walk ends, states
 * need not be distinguished: each was checked when it was reached.
 */
export function explore(walks: readonly Walk[]): Exploration {
  const states = new Set<string>();
  const broken = new Map<string, BrokenSequence>();
  let steps = 0;
  for (const walk of walks) {
    const seen = new Set<string>();
    const takenSteps = new TakenSteps();
    let frontier = startOf(walk, broken);
    for (let level = 1; level <= walk.depth; level += 1) {
      const isLast = level === walk.depth;
      const next: Place[] = [];
      for (const place of frontier) {
        for (const tree of treesOf(place)) {
          const { count, results } = takenSteps.from(tree, place, () => {
            const possible = stepsAt(tree, place, walk);
            const reached = possible.flatMap((step) => attempt(place, step, broken) ?? []);
            return { count: possible.length, results: isLast ? [] : reached };
          });
          steps += count;
          for (const { step, changed, nowMs } of results) {
            const histories = withChanged(place.histories, changed);
            const canonical = canonicalStateOf(histories, iso(nowMs));
            if (seen.has(canonical)) continue;
            seen.add(canonical);
            states.add(canonical);
            next.push({ histories, nowMs, previous: place, step });
          }
        }
      }
      frontier = next;
    }
  }
  return { states: states.size, steps, broken: [...broken.values()] };
}

/** What a step changed, and when. */
interface StepResult {
  readonly step: string;
  readonly changed: readonly AgentHistory[];
  readonly nowMs: number;
}

/** The steps that were taken from one tree. */
interface StepsOfTree {
  readonly count: number;
  /** Of those that changed something and broke nothing. */
  readonly results: readonly StepResult[];
}

/**
 * A step reads only the tree that it is about, and deciding is a pure function: the steps from the same values of a
 * tree at the same time are taken once, whatever the other tree is.
 */
class TakenSteps {
  readonly #numbers = new Map<AgentHistory, number>();
  readonly #taken = new Map<string, StepsOfTree>();

  from(tree: Tree, { nowMs }: Snapshot, take: () => StepsOfTree): StepsOfTree {
    const key = `${nowMs} ${tree.map((history) => this.#numberOf(history))}`;
    const taken = this.#taken.get(key) ?? take();
    this.#taken.set(key, taken);
    return taken;
  }

  /** Histories are never changed in place, so each value has one number. */
  #numberOf(history: AgentHistory): number {
    const number = this.#numbers.get(history) ?? this.#numbers.size;
    this.#numbers.set(history, number);
    return number;
  }
}

/** The step's result, or null when it changed nothing or broke something, which is recorded. */
function attempt(place: Place, step: PossibleStep, broken: Map<string, BrokenSequence>): StepResult | null {
  try {
    return take(place, step);
  } catch (error) {
    const kind = `${error instanceof Violation ? error.invariant : 'Crash'} ${step.name}`;
    if (!broken.has(kind))
      broken.set(kind, { message: String(error), sequence: [...sequenceTo(place), step.name] });
    return null;
  }
}

function sequenceTo(place: Place): string[] {
  return place.previous ? [...sequenceTo(place.previous), place.step] : [];
}

/** Two agents that have just been spawned, and what a walk does first. */
function startOf(walk: Walk, broken: Map<string, BrokenSequence>): Place[] {
  let start: Snapshot = { histories: new Map(), nowMs: startMs };
  for (const name of ['a', 'b']) {
    const act: Act = { type: 'spawn', command: spawn(`root-${name}`, [name]) };
    const spawned = take(start, { name: `spawn ${name}`, act });
    if (spawned) start = { ...spawned, histories: withChanged(start.histories, spawned.changed) };
  }
  let place: Place = { ...start, previous: null, step: '' };
  for (const name of walk.from) {
    const any = { ...walk, isCommanded: () => true };
    const possible = treesOf(place).flatMap((tree) => stepsAt(tree, place, any));
    const step = possible.find((one) => one.name === name);
    if (!step) throw new Error(`there is no "${name}" here`);
    const reached = attempt(place, step, broken);
    if (!reached) return [];
    const histories = withChanged(place.histories, reached.changed);
    place = { histories, nowMs: reached.nowMs, previous: place, step: name };
  }
  return [place];
}

type Tree = readonly AgentHistory[];

/** The agents by their root. */
function treesOf({ histories }: Snapshot): Tree[] {
  const trees = new Map<string, AgentHistory[]>();
  for (const history of histories.values()) {
    const tree = trees.get(history.agent.root);
    if (tree) tree.push(history);
    else trees.set(history.agent.root, [history]);
  }
  return [...trees.values()];
}

function stepsAt(tree: Tree, { nowMs }: Snapshot, { isCommanded }: Walk): PossibleStep[] {
  const [root, ...children] = tree as [AgentHistory, ...AgentHistory[]];
  return [
    ...(root.agent.id === 'root-a' ? otherSteps(root, children) : []),
    ...tree.filter((h) => h.agent.current && isCommanded(h)).flatMap((h) => stepsFor(h, nowMs)),
  ];
}

/** Takes one step and checks everything; null when nothing changed. */
function take(place: Snapshot, { name, act }: PossibleStep): StepResult | null {
  if (act.type === 'pass') return { step: name, changed: [], nowMs: place.nowMs + act.ms };
  const nowMs = place.nowMs + 1;
  const now = iso(nowMs);
  const { histories } = place;
  const decision =
    act.type === 'spawn'
      ? decideSpawn(histories, act, now)
      : decideLoaded(histories, act.agent, act.command, now);
  const changes = 'refused' in decision ? [] : decision.changes;
  const changed = changes.map((change) => recorded(histories.get(change.after.agent.id), change));
  const after = withChanged(histories, changed);
  if (act.type === 'command') {
    const [was, is] = [histories.get(act.agent), after.get(act.agent)] as [AgentHistory, AgentHistory];
    checkStep({ before: was, command: act.command, decision, after: is, all: after, now });
  }
  if (changes.length === 0) return null;
  for (const history of changed) {
    const audit = new TimelineAudit(overridesById);
    for (const entry of history.entries) audit.take(entry);
    checkAgent(history, audit, now);
  }
  checkTrees(after);
  return { step: name, changed, nowMs };
}

function withChanged(histories: Histories, changed: readonly AgentHistory[]): Histories {
  if (changed.length === 0) return histories;
  const after = new Map(histories);
  for (const history of changed) after.set(history.agent.id, history);
  return after;
}

function decideSpawn(
  histories: Histories,
  { command }: Extract<Act, { type: 'spawn' }>,
  now: string,
): Decision<unknown> {
  const loaded = new LoadedAgents(now);
  const parentPath = command.identity.path.slice(0, -1).join('/');
  let parent: AgentState | null = null;
  for (const history of histories.values()) {
    const path = history.agent.path.join('/');
    if (path === parentPath && history.agent.current) parent = wholeState(history);
    if (path === parentPath || path === command.identity.path.join('/')) loaded.add(wholeState(history));
  }
  return spawnAgent(loaded, command, parent);
}

/** Decides with exactly what the command said it needs, as the store would load it. */
function decideLoaded(
  histories: Histories,
  id: string,
  command: AgentCommand,
  now: string,
): Decision<unknown> {
  const loaded = new LoadedAgents(now);
  const needs = needsOf(command);
  const target = histories.get(id) as AgentHistory;
  const isLiveBelow = ({ agent }: AgentHistory) => agent.ancestors.includes(id) && agent.endedAt === null;
  const below = needs.tree ? [...histories.values()].filter(isLiveBelow) : [];
  for (const history of [target, ...below]) {
    loaded.add(stateFor(history, needs));
    if (needs.children) addChildren(loaded, histories, history.agent.id);
  }
  const parent = needs.parent && target.agent.parent ? histories.get(target.agent.parent) : undefined;
  if (parent) {
    loaded.add(stateFor(parent, {}));
    addChildren(loaded, histories, parent.agent.id);
  }
  return decide(loaded, command, loaded.get(id) as AgentState);
}

function stateFor(history: AgentHistory, needs: ReturnType<typeof needsOf>): AgentState {
  const followUps = new Map<string, FollowUp>();
  for (const [id, followUp] of history.followUps)
    if (id === needs.followUpId || (needs.queue && isUndelivered(followUp))) followUps.set(id, followUp);
  const { agent, run, checklist } = wholeState(history);
  return { agent, run, followUps, checklist: needs.checklist ? checklist : [] };
}

function addChildren(loaded: LoadedAgents, histories: Histories, parent: string): void {
  const children = [...histories.values()].filter((h) => h.agent.parent === parent && h.agent.current);
  loaded.addChildren(
    parent,
    children.map((h) => childView(wholeState(h))),
  );
}
