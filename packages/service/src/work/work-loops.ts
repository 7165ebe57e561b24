import type pg from 'pg';
import type { Log } from '../lib/log.ts';
import type { DueRows } from '../store/statements/due-rows.ts';
import { withinBudget } from './reply-budget.ts';
import { SuspectPlace, type Worker, WorkLoop } from './work-loop.ts';

export interface WorkLoopsOptions {
  readonly database: pg.Pool;
  readonly log: Log;
}

type Loop = Pick<WorkLoop<never>, 'table' | 'nudge' | 'close'>;
type LoopShared = WorkLoopsOptions & { readonly suspects: SuspectPlace; readonly onWork: () => void };
export type NewLoop = (shared: LoopShared) => Loop;

/** One kind of work, as an entry of the list of all kinds. */
export const loopOf =
  <Row extends { readonly tenant: number }>(name: string, due: DueRows<Row>, worker: Worker<Row>): NewLoop =>
  (shared) =>
    new WorkLoop<Row>({
      ...{ ...shared, name, due },
      work: (row) => withinBudget(() => worker.work(row)),
      giveUp: (row, reason) => worker.giveUp(row, reason),
    });

/** All work that waits in the database. Each node does whatever is due. */
export class WorkLoops {
  readonly #loops: readonly Loop[];

  constructor(options: WorkLoopsOptions, kinds: readonly NewLoop[]) {
    const shared = { ...options, suspects: new SuspectPlace(), onWork: () => this.nudge() };
    this.#loops = kinds.map((kind) => kind(shared));
  }

  /** Looks at everything: one kind of work may lead to another. */
  nudge(): void {
    for (const loop of this.#loops) loop.nudge();
  }

  /** The timers have found that rows of this table are due. */
  due(table: string): void {
    for (const loop of this.#loops) if (loop.table === table) loop.nudge();
  }

  async close(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.close()));
  }
}
