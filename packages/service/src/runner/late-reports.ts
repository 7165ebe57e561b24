import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type MusterClient, MusterError } from '@muster/sdk';
import type { ReportItem, ReportRequest } from '@muster/sdk/contract';
import type { Usage } from '../harness/harness.ts';
import type { RunnerLog } from '../lib/log.ts';
import { faultOf } from './retry.ts';
import { noUsage, sumOf } from './run/usage.ts';

type RunRef = Pick<ReportRequest, 'agentKey' | 'runId'>;
/** What no report has acknowledged, under the number with which it may have arrived. */
export type NumberedItems = { readonly report: number; readonly items: readonly ReportItem[] };

interface Note extends RunRef {
  readonly usage: Usage;
  /** How many items no report has acknowledged. */
  readonly unreported: number;
}

/** The run of a process that was killed: the numbers of its reports are not known. */
const lastReportNumber = 2 ** 31 - 1;
/** Items are usually reported before that. */
const noteItemsMs = 250;
const callTimeoutMs = 10_000;

/**
 * What a run used so far, in a file that outlives this process and that agents can't write. It is removed when the end
 * of the run was acknowledged; until then it is the only record of what no report has said.
 */
export class RunNote {
  readonly ref: RunRef;
  readonly #file: string;
  readonly #log: RunnerLog;
  #usage: Usage = noUsage;
  #unreported: () => number = () => 0;
  #written = '';
  #writing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(folder: string, { agentKey, runId }: RunRef, log: RunnerLog) {
    this.ref = { agentKey, runId };
    this.#file = join(folder, `${agentKey}-${runId}.json`);
    this.#log = log;
  }

  get note(): Note {
    return { ...this.ref, usage: this.#usage, unreported: this.#unreported() };
  }

  countItemsWith(unreported: () => number): void {
    this.#unreported = unreported;
  }

  add(usage: Usage): void {
    this.#usage = sumOf(this.#usage, usage);
    this.#write();
  }

  /** Items were added or acknowledged. */
  itemsChanged(): void {
    this.#timer ??= setTimeout(() => this.#write(), noteItemsMs);
  }

  /** The file has what is known now. */
  async close(): Promise<void> {
    this.#write();
    await this.#writing;
    clearTimeout(this.#timer);
  }

  async remove(): Promise<void> {
    await this.close();
    await rm(this.#file, { force: true });
  }

  /** One at a time; the next one has everything that changed meanwhile. */
  #write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#writeAll()
      .catch((error: unknown) => this.#log.warn({ ...this.ref, err: error }, 'usage could not be noted'))
      .finally(() => {
        this.#writing = undefined;
      });
  }

  async #writeAll(): Promise<void> {
    for (;;) {
      const { note } = this;
      const text = JSON.stringify(note);
      const isEmpty = this.#written === '' && note.usage === noUsage && note.unreported === 0;
      if (isEmpty || text === this.#written) return;
      await writeFile(`${this.#file}.new`, text, { mode: 0o600 });
      await rename(`${this.#file}.new`, this.#file);
      this.#written = text;
    }
  }
}

interface Late extends Note {
  readonly items: readonly NumberedItems[];
}

/** Reports what the service does not know about runs that have ended: after a lost lease, a kill, or a crash of the runner. */
export class LateReports {
  readonly #folder: string;
  readonly #client: MusterClient;
  readonly #log: RunnerLog;
  readonly #due = new Map<string, Late>();
  #isSending = false;

  constructor(dataFolder: string, client: MusterClient, log: RunnerLog) {
    this.#folder = join(dataFolder, 'usage');
    this.#client = client;
    this.#log = log;
  }

  /** Finds the runs of an earlier process. */
  async open(): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    for (const name of await readdir(this.#folder)) {
      const file = join(this.#folder, name);
      try {
        if (name.endsWith('.json'))
          this.#due.set(name, { ...(JSON.parse(await readFile(file, 'utf8')) as Note), items: [] });
      } catch (error) {
        this.#log.warn({ err: error, file }, 'usage could not be read');
      }
    }
  }

  noteOf(ref: RunRef): RunNote {
    return new RunNote(this.#folder, ref, this.#log);
  }

  /** The run has ended here, and the service has not acknowledged its end. */
  async add(note: RunNote, items: readonly NumberedItems[]): Promise<void> {
    await note.close();
    const late = { ...note.note, items };
    if (late.usage === noUsage && items.length === 0) return note.remove();
    this.#due.set(nameOf(late), { ...late, unreported: 0 });
  }

  /** Called after each poll. */
  async send(runnerId: string): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      for (const [name, late] of this.#due) {
        if (!(await this.#isSettled(runnerId, late))) continue;
        this.#due.delete(name);
        await rm(join(this.#folder, name), { force: true });
      }
    } finally {
      this.#isSending = false;
    }
  }

  /** False: it has to be sent again. */
  async #isSettled(runnerId: string, { usage, unreported, items, ...run }: Late): Promise<boolean> {
    const send = (body: Pick<ReportRequest, 'report' | 'items' | 'late'>) =>
      this.#client.call('runnerReport', { runnerId, ...run, ...body }, { timeoutMs: callTimeoutMs });
    try {
      await send({ report: lastReportNumber, late: { usage } });
      for (const { report, items: some } of items) await send({ report, items: [...some], late: {} });
      if (unreported > 0) await send({ report: lastReportNumber, late: { missing: unreported } });
      return true;
    } catch (error) {
      const isFinal = faultOf(error) !== 'retry' && !isNotEnded(error);
      if (isFinal) this.#log.warn({ ...run, usage, err: error }, 'late report refused');
      return isFinal;
    }
  }
}

const nameOf = ({ agentKey, runId }: RunRef): string => `${agentKey}-${runId}.json`;

const isNotEnded = (error: unknown): boolean =>
  error instanceof MusterError && error.reason === 'RUN_NOT_ENDED';
